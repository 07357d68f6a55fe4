"""Tables of fp32, fp16 and int8 side by side, of where the error arises, and of the gates."""

from __future__ import annotations

from collections.abc import Sequence

from quantflow.artifacts.comparison import Comparison, Fidelity, LayerError, Precision, TaskScore
from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.sweep_record import SweepRecord
from quantflow.report.gates import Gate
from quantflow.report.quantities import DAMAGES
from quantflow.report.sheet import (
    Sheet,
    cosine_text,
    db_text,
    interval_text,
    number_text,
    score_text,
)

_TITLES = {
    "fp16": "fp16",
    "fp16_plain": "fp16 without islands",
    "int8": "int8",
    "qdq": "int8, QDQ twin",
}
_TITLES_WITHOUT_INT8 = _TITLES | {"int8": "deploy model (no layer INT8)", "qdq": "QDQ twin"}
_ERRORS_NOTE = (
    "Own: given the float input, so that only this layer's quantization counts. A low own SQNR "
    "need not hurt the outputs: a few large outliers dominate it, and what follows, such as a "
    "softmax or a layer norm, normalises them; damage is what the outputs show of it."
)
_TASK_OF: dict[str, Precision] = {"fp16": "fp16", "fp16_plain": "fp16_plain", "int8": "int8"}


def precisions_sheet(comparison: Comparison, export: ExportRecord | None = None) -> Sheet:
    """The references side by side.

    Args:
        comparison: with their figures.
        export: tells whether anything is INT8 at all; taken to be so without it.
    """
    metric = comparison.task_metric
    titles = _TITLES if has_int8(export) else _TITLES_WITHOUT_INT8
    rows = [("fp32", *_fidelity_cells(None), *_task_cells(comparison, "fp32"))]
    rows += [
        (
            title,
            *_fidelity_cells(comparison.fidelity[key]),
            *_task_cells(comparison, _TASK_OF.get(key)),
        )
        for key, title in titles.items()
        if key in comparison.fidelity
    ]
    head = ("precision", "cosine mean", "95% interval", "cosine min", "max abs error")
    task_head = (metric, "95% interval") if comparison.task else ()
    note = (
        f"{comparison.samples} evaluation samples in bucket {comparison.bucket}, against fp32. "
        f"{titles['int8']} and its QDQ twin differ by {number_text(comparison.fidelity_gap)}; "
        f"rounding flips alone do {number_text(comparison.flip_noise)}."
    )
    align = "lrrrr" + "rr" * bool(comparison.task)
    return Sheet("Precision", (*head, *task_head), align, tuple(rows), note)


def has_int8(export: ExportRecord | None) -> bool:
    """Whether any layer of the deploy model is INT8."""
    return export is None or any(layer.precision == "int8" for layer in export.layers)


def _fidelity_cells(fidelity: Fidelity | None) -> tuple[str, ...]:
    if fidelity is None:
        return ("1", "", "1", "0")
    return (
        cosine_text(fidelity.cosine_mean),
        interval_text(fidelity.cosine_low, fidelity.cosine_high),
        cosine_text(fidelity.cosine_min),
        number_text(fidelity.max_abs_error),
    )


def _task_cells(comparison: Comparison, precision: Precision | None) -> tuple[str, ...]:
    if not comparison.task:
        return ()
    score: TaskScore | None = comparison.task.get(precision) if precision else None
    if score is None:
        return ("", "")
    return (score_text(score.value), f"{score_text(score.low)} to {score_text(score.high)}")


def worst_layers(comparison: Comparison) -> list[LayerError]:
    """Layers whose own quantization does most harm first."""
    return sorted(comparison.layers, key=lambda x: x.own_sqnr_db)


def errors_sheet(
    comparison: Comparison, export: ExportRecord | None = None, sweep: SweepRecord | None = None
) -> Sheet:
    """Where the error arises, worst first; then the layers that are not INT8.

    Args:
        comparison: with the figures of the INT8 layers.
        export: tells of the other layers, where it is given.
        sweep: tells how much each group hurts, where that was measured.
    """
    damage = _damage(sweep) if sweep else {}
    rows = [
        (x.layer, x.group, "int8", db_text(x.own_sqnr_db), db_text(x.sqnr_db), damage.get(x.group))
        for x in worst_layers(comparison)
    ]
    rows += [
        (x.layer, x.group, x.precision, "-", "-", damage.get(x.group))
        for x in (export.layers if export else ())
        if x.precision != "int8"
    ]
    head = ("layer", "group", "precision", "own SQNR dB", "SQNR dB")
    if damage:
        head = (*head, f"damage to {sweep.metric}" if sweep else "")
    cells = tuple(tuple(cell or "-" for cell in row[: len(head)]) for row in rows)
    return Sheet("Error by layer", head, "lllrrr"[: len(head)], cells, _ERRORS_NOTE)


def _damage(sweep: SweepRecord) -> dict[str, str]:
    """How much each group hurts when it alone is INT8."""
    return {x.group: DAMAGES[sweep.metric].damage_text(x.one_in.damage) for x in sweep.scores}


def worst_samples_sheet(comparison: Comparison) -> Sheet:
    """The samples that each precision serves worst."""
    rows = [
        (_TITLES.get(key, key), ", ".join(fidelity.worst_samples))
        for key, fidelity in comparison.fidelity.items()
    ]
    return Sheet("Worst samples", ("precision", "least cosine first"), "ll", tuple(rows))


def gates_sheet(gates: Sequence[Gate]) -> Sheet:
    """How the gates came out."""
    rows = [(gate.stage, gate.name, gate.verdict, "; ".join(gate.reasons)) for gate in gates]
    return Sheet("Gates", ("stage", "gate", "verdict", "reasons"), "llll", tuple(rows))
