"""Tables of fp32, fp16 and int8 side by side, of where the error arises, and of the gates."""

from __future__ import annotations

from collections.abc import Sequence

from quantflow.artifacts.comparison import Comparison, Fidelity, LayerError, Precision, TaskScore
from quantflow.report.gates import Gate
from quantflow.report.sheet import Sheet, cosine_text, db_text, interval_text, number_text

_TITLES = {
    "fp16": "fp16",
    "fp16_plain": "fp16 without islands",
    "int8": "int8",
    "qdq": "int8, QDQ twin",
}
_TASK_OF: dict[str, Precision] = {"fp16": "fp16", "int8": "int8"}


def precisions_sheet(comparison: Comparison) -> Sheet:
    """The references side by side."""
    metric = comparison.task_metric
    rows = [("fp32", *_fidelity_cells(None), *_task_cells(comparison, "fp32"))]
    rows += [
        (
            title,
            *_fidelity_cells(comparison.fidelity[key]),
            *_task_cells(comparison, _TASK_OF.get(key)),
        )
        for key, title in _TITLES.items()
        if key in comparison.fidelity
    ]
    head = ("precision", "cosine mean", "95% interval", "cosine min", "max abs error")
    task_head = (metric, "95% interval") if comparison.task else ()
    note = (
        f"{comparison.samples} evaluation samples in bucket {comparison.bucket}, against fp32. "
        f"int8 and its QDQ twin differ by {number_text(comparison.fidelity_gap)}; rounding flips "
        f"alone do {number_text(comparison.flip_noise)}."
    )
    align = "lrrrr" + "rr" * bool(comparison.task)
    return Sheet("Precision", (*head, *task_head), align, tuple(rows), note)


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
    return (f"{score.value:.4f}", f"{score.low:.4f} to {score.high:.4f}")


def worst_layers(comparison: Comparison) -> list[LayerError]:
    """Layers whose own quantization does most harm first."""
    return sorted(comparison.layers, key=lambda x: x.own_sqnr_db)


def errors_sheet(comparison: Comparison) -> Sheet:
    """Where the error arises, worst first."""
    rows = [
        (x.layer, x.group, db_text(x.own_sqnr_db), db_text(x.sqnr_db))
        for x in worst_layers(comparison)
    ]
    head = ("layer", "group", "own SQNR dB", "SQNR dB")
    note = "Own: given the float input, so that only this layer's quantization counts."
    return Sheet("Error by layer", head, "llrr", tuple(rows), note)


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
