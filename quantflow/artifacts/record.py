"""Base of all records: frozen, unknown fields refused, one way to write and read them.

JSON is canonical (sorted keys, shortest round-trip floats, ``NaN`` and ``Infinity`` as strings), so
that equal records are equal bytes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from quantflow.artifacts.atomic import write_atomically
from quantflow.errors import fail

Verdict = Literal["pass", "warn", "fail"]


class Record(BaseModel):
    """A frozen record that is written as canonical JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")

    def to_tree(self) -> Any:
        """What strict JSON can hold of it: dicts, lists, strings and finite numbers."""
        # Only pydantic's own JSON honours ser_json_inf_nan.
        return json.loads(self.model_dump_json())

    def to_json(self) -> str:
        """Canonical JSON text, ending in a newline."""
        return json.dumps(self.to_tree(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"

    def write(self, path: Path) -> None:
        """Write the record atomically."""
        write_atomically(path, self.to_json().encode())

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a record.

        Raises:
            QuantflowError: QF401 when the file is missing, QF402 when it does not hold this record.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            fail("QF401", f"cannot read {path.name}: {error.strerror}", where=str(path))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            fail(
                "QF402",
                f"{path.name} is not a valid {cls.__name__}: {key}: {first['msg']}",
                where=str(path),
                fix="mend the file, or rerun the stage that writes it with --force",
            )


def worst(*verdicts: Verdict) -> Verdict:
    """The worst of some verdicts; `pass` of none."""
    if "fail" in verdicts:
        return "fail"
    return "warn" if "warn" in verdicts else "pass"
