"""What `quantflow show` can show: a table and the records behind it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from quantflow.artifacts.record import Record
from quantflow.report import (
    comparison_sheets,
    coverage_sheets,
    diagnosis_sheets,
    drift_sheets,
    export_sheets,
    hygiene_sheet,
    model_sheets,
    optimize_sheets,
    plan_sheets,
    range_sheets,
    score_sheets,
)
from quantflow.report.artifacts import Artifacts
from quantflow.report.sheet import Sheet, db_text


@dataclass(frozen=True, slots=True)
class View:
    """One view.

    Attributes:
        command: what makes its artifacts.
        parts: attributes of `Artifacts` that hold the records behind it.
        sheets: its tables.
        by_layer: whether rows are about layers, groups or tensors, so that one can be asked for.
        whole: whether all rows are shown, however many there are.
    """

    command: str
    parts: tuple[str, ...]
    sheets: Callable[[Artifacts], list[Sheet]]
    by_layer: bool = True
    whole: bool = False

    def records(self, found: Artifacts) -> dict[str, Record]:
        """The records by name; empty when none is there."""
        if self.parts == ("sets",):
            return {record.name: record for record in found.sets}
        records = {name: getattr(found, name) for name in self.parts}
        return {name: record for name, record in records.items() if record is not None}


def _layers(found: Artifacts) -> list[Sheet]:
    errors = list[Sheet]()
    if found.comparison:
        errors += [comparison_sheets.errors_sheet(found.comparison, found.export, found.sweep)]
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


def _coverage(found: Artifacts) -> list[Sheet]:
    if found.coverage is None:
        return []
    sheets = [coverage_sheets.coverage_sheet(found.coverage)]
    stability = found.stability
    return [*sheets, coverage_sheets.stability_sheet(stability)] if stability else sheets


def _optimize(found: Artifacts) -> list[Sheet]:
    if found.optimize is None:
        return []
    return [sheet for sheet in optimize_sheets.all_sheets(found.optimize) if sheet.rows]


def _scores(found: Artifacts) -> list[Sheet]:
    return [score_sheets.scores_sheet(found.sweep)] if found.sweep else []


def _sides(found: Artifacts) -> list[Sheet]:
    return [score_sheets.sides_sheet(found.sweep)] if found.sweep else []


def _curve(found: Artifacts) -> list[Sheet]:
    return [plan_sheets.curve_sheet(found.sweep, found.plan)] if found.sweep else []


def _policies(found: Artifacts) -> list[Sheet]:
    edited = found.plan_edited
    return [plan_sheets.policies_sheet(found.sweep, edited=edited)] if found.sweep else []


def _plan(found: Artifacts) -> list[Sheet]:
    if found.plan is None:
        return []
    return [plan_sheets.plan_sheet(found.plan, edited=found.plan_edited)]


def _factors(found: Artifacts) -> list[Sheet]:
    return [export_sheets.factors_sheet(found.export)] if found.export else []


def _parity(found: Artifacts) -> list[Sheet]:
    if found.parity is None:
        return []
    sheets = [export_sheets.parity_sheet(found.parity)]
    buckets = export_sheets.bucket_parity_sheet(found.parity)
    return [*sheets, buckets] if buckets.rows else sheets


def _diagnosis(found: Artifacts) -> list[Sheet]:
    return [diagnosis_sheets.experiments_sheet(found.diagnosis)] if found.diagnosis else []


def _export(found: Artifacts) -> list[Sheet]:
    if found.export is None:
        return []
    return [export_sheets.buckets_sheet(found.export), export_sheets.op_types_sheet(found.export)]


def _sets(found: Artifacts) -> list[Sheet]:
    if not found.sets:
        return []
    return [model_sheets.sets_sheet(found.sets), *map(model_sheets.samples_sheet, found.sets)]


def _drift(found: Artifacts) -> list[Sheet]:
    if found.drift is None:
        return []
    return [
        drift_sheets.features_sheet(found.drift),
        drift_sheets.examples_sheet(found.drift, found.sets),
        drift_sheets.selections_sheet(found.drift),
    ]


def _hygiene(found: Artifacts) -> list[Sheet]:
    if found.hygiene is None:
        return []
    findings = hygiene_sheet.findings_sheet(found.hygiene)
    repeats = hygiene_sheet.sets_hygiene_sheet(found.hygiene)
    return [findings, repeats] if findings.rows else [repeats]


def _summary(found: Artifacts) -> list[Sheet]:
    if found.summary is None:
        return []
    note = "- is empty, or of a stage that has not run."
    rows = tuple(_leaves("", found.summary.to_tree()))
    return [Sheet("Summary", ("key", "value"), "ll", rows, note)]


def _leaves(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Dotted keys with their values as text."""
    if isinstance(value, dict):
        tree = cast(dict[str, Any], value)
        for name, child in tree.items():
            yield from _leaves(f"{key}.{name}" if key else name, child)
        if not tree:
            yield key, "-"
    elif isinstance(value, list):
        yield key, "; ".join(map(str, cast(list[Any], value))) or "-"
    else:
        text = value if isinstance(value, str) else json.dumps(value)
        yield key, "-" if value is None else text


VIEWS: dict[str, View] = {
    "layers": View("quantflow prepare", ("model", "comparison"), _layers),
    "groups": View("quantflow prepare", ("model",), _groups),
    "set": View("quantflow build-set", ("sets",), _sets, by_layer=False),
    "drift": View("quantflow build-set", ("drift",), _drift, by_layer=False),
    "hygiene": View("quantflow build-set", ("hygiene",), _hygiene, by_layer=False),
    "ranges": View("quantflow calibrate", ("ranges",), _ranges),
    "clipping": View("quantflow calibrate", ("clipping",), _clipping),
    "coverage": View("quantflow calibrate", ("coverage", "stability"), _coverage),
    "fp16": View("quantflow calibrate", ("fp16",), _fp16),
    "optimize": View("quantflow optimize", ("optimize",), _optimize),
    "scores": View("quantflow sweep", ("sweep",), _scores),
    "sides": View("quantflow sweep", ("sweep",), _sides, by_layer=False),
    "curve": View("quantflow sweep", ("sweep",), _curve, by_layer=False),
    "policies": View("quantflow sweep", ("sweep",), _policies, by_layer=False),
    "plan": View("quantflow sweep", ("plan",), _plan),
    "export": View("quantflow export-onnx", ("export",), _export, by_layer=False, whole=True),
    "factors": View("quantflow export-onnx", ("export",), _factors),
    "parity": View("quantflow export-onnx", ("parity",), _parity),
    "diagnosis": View("quantflow diagnose", ("diagnosis",), _diagnosis, by_layer=False, whole=True),
    "summary": View("quantflow run", ("summary",), _summary, by_layer=False, whole=True),
}


def timings_sheet(times: Mapping[str, Any]) -> Sheet:
    """Stages, longest first."""
    ordered = sorted(times.items(), key=lambda item: -item[1]["seconds"])
    rows = tuple((name, db_text(x["seconds"]), x["finished"]) for name, x in ordered)
    return Sheet("Timings", ("stage", "seconds", "finished"), "lrl", rows)
