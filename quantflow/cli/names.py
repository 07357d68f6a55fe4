"""What a name on the command line stands for: a layer, a group or a tensor, with its kin."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

from quantflow.artifacts.model_record import ModelRecord
from quantflow.errors import did_you_mean, fail
from quantflow.report.sheet import Sheet

MOST_NAMES = 6
"""Names that a message lists."""

_KEYS = ("layer", "tensor", "name", "node", "group")
"""Fields that say what a row of a record is about, most telling first."""


def related_names(model: ModelRecord, name: str) -> frozenset[str]:
    """A layer with its group and input; a group or a tensor with the layers that belong to it.

    Args:
        model: whose names count.
        name: a whole name, or the end of just one.

    Raises:
        QuantflowError: QF107 with the nearest names.
    """
    known = {part for x in model.layers for part in (x.name, x.group, x.input) if part}
    name = _whole_name(name, known)
    layers = [x for x in model.layers if name in (x.name, x.group, x.input)]
    single = [x for x in layers if x.name == name] or layers
    return frozenset(part for x in single for part in (x.name, x.node, x.group, x.input) if part)


def _whole_name(name: str, known: Collection[str]) -> str:
    ends = sorted(x for x in known if x.endswith((f".{name}", f"/{name}")))
    if name not in known and not ends:
        what = f"no layer, group or quantized tensor {name!r}"
        fail("QF107", what, where="--layer", fix=did_you_mean(name, known))
    if name not in known and len(ends) > 1:
        what = f"{len(ends)} layers, groups or quantized tensors end in {name!r}"
        fix = f"give one in full: {', '.join(ends[:MOST_NAMES])}"
        fail("QF107", what, where="--layer", fix=fix)
    return name if name in known else ends[0]


def tensors_of(model: ModelRecord, names: frozenset[str]) -> list[str]:
    """The activations among `names`, in graph order."""
    return list(dict.fromkeys(x.input for x in model.layers if x.input in names))


def filter_sheet(sheet: Sheet, names: frozenset[str]) -> Sheet:
    """The rows about one of `names`, which the first column of text says."""
    subject = sheet.align.index("l")
    rows = tuple(row for row in sheet.rows if row[subject] in names)
    return replace(sheet, rows=rows)


def filter_json(value: Any, names: frozenset[str]) -> Any:
    """A record's JSON value with only the entries about one of `names`."""
    if isinstance(value, dict):
        tree = cast(dict[str, Any], value)
        if not names.isdisjoint(tree):  # a table by name, such as the plan's groups
            return {key: child for key, child in tree.items() if key in names}
        return {key: filter_json(child, names) for key, child in tree.items()}
    if isinstance(value, list):
        return [entry for entry in cast(list[Any], value) if _is_about(entry, names)]
    return value


def _is_about(entry: Any, names: frozenset[str]) -> bool:
    if not isinstance(entry, dict):
        return True
    row = cast(dict[str, Any], entry)
    key = next((key for key in _KEYS if key in row), None)
    return key is None or row[key] in names
