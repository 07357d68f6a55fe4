"""What `quantflow show` can show: a table and the records behind it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from quantflow.artifacts.record import Record
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.report import comparison_sheets, export_sheets, model_sheets, range_sheets
from quantflow.report.artifacts import Artifacts
from quantflow.report.sheet import Sheet, db_text


@dataclass(frozen=True, slots=True)
class View:
    """One view.

    Attributes:
        command: what makes its artifacts.
        parts: attributes of `Artifacts` that hold the records behind it.
        sheets: its tables.
    """

    command: str
    parts: tuple[str, ...]
    sheets: Callable[[Artifacts], list[Sheet]]

    def records(self, found: Artifacts) -> dict[str, Record]:
        """The records by name; empty when none is there."""
        if self.parts == ("sets",):
            return {record.name: record for record in found.sets}
        records = {name: getattr(found, name) for name in self.parts}
        return {name: record for name, record in records.items() if record is not None}


def _layers(found: Artifacts) -> list[Sheet]:
    errors = [comparison_sheets.errors_sheet(found.comparison)] if found.comparison else []
    return [*errors, model_sheets.layers_sheet(found.model)] if found.model else errors


def _groups(found: Artifacts) -> list[Sheet]:
    return [model_sheets.groups_sheet(found.model)] if found.model else []


def _ranges(found: Artifacts) -> list[Sheet]:
    if found.ranges is None:
        return []
    return [range_sheets.nonfinite_sheet(found.ranges), range_sheets.ranges_sheet(found.ranges)]


def _clipping(found: Artifacts) -> list[Sheet]:
    return [range_sheets.clipping_sheet(found.clipping)] if found.clipping else []


def _fp16(found: Artifacts) -> list[Sheet]:
    if found.fp16 is None:
        return []
    return [range_sheets.islands_sheet(found.fp16), range_sheets.fp16_sheet(found.fp16)]


def _plan(found: Artifacts) -> list[Sheet]:
    factors = [export_sheets.factors_sheet(found.export)] if found.export else []
    return [export_sheets.plan_sheet(found.plan), *factors] if found.plan else factors


def _parity(found: Artifacts) -> list[Sheet]:
    return [export_sheets.parity_sheet(found.parity)] if found.parity else []


def _sets(found: Artifacts) -> list[Sheet]:
    if not found.sets:
        return []
    return [model_sheets.sets_sheet(found.sets), *map(model_sheets.samples_sheet, found.sets)]


def _summary(found: Artifacts) -> list[Sheet]:
    if found.summary is None:
        return []
    tree = found.summary.model_dump(mode="json")
    rows = tuple((key, json.dumps(value, ensure_ascii=False)) for key, value in tree.items())
    return [Sheet("Summary", ("", ""), "ll", rows)]


VIEWS: dict[str, View] = {
    "layers": View("quantflow prepare", ("model", "comparison"), _layers),
    "groups": View("quantflow prepare", ("model",), _groups),
    "set": View("quantflow build-set", ("sets",), _sets),
    "ranges": View("quantflow calibrate", ("ranges",), _ranges),
    "clipping": View("quantflow calibrate", ("clipping",), _clipping),
    "fp16": View("quantflow calibrate", ("fp16",), _fp16),
    "plan": View("quantflow export-onnx", ("plan", "export"), _plan),
    "parity": View("quantflow export-onnx", ("parity",), _parity),
    "summary": View("quantflow compare", ("summary",), _summary),
}


def timings(run: RunDirectory) -> dict[str, Any]:
    """Seconds and time of completion by stage; empty before anything has run."""
    try:
        found: object = json.loads((run.root / "timings.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return cast(dict[str, Any], found) if isinstance(found, dict) else {}


def timings_sheet(times: Mapping[str, Any]) -> Sheet:
    """Stages, longest first."""
    ordered = sorted(times.items(), key=lambda item: -item[1]["seconds"])
    rows = tuple((name, db_text(x["seconds"]), x["finished"]) for name, x in ordered)
    return Sheet("Timings", ("stage", "seconds", "finished"), "lrl", rows)
