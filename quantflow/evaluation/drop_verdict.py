"""Whether a task's figure falls by more than the budget allows, or too few samples tell."""

from __future__ import annotations

from collections.abc import Mapping

from quantflow.artifacts.comparison import PairedScore, Precision, TaskScore
from quantflow.artifacts.record import Verdict
from quantflow.tasks.criteria import Limit

Scores = Mapping[Precision, TaskScore]


def judge_drop(
    limit: Limit, scores: Scores, against_fp32: Mapping[Precision, PairedScore], label: str
) -> tuple[Verdict, list[str]]:
    """The verdict by a task with records of its own, and a sentence for all that is not well.

    Args:
        limit: what is asked.
        scores: of `fp32`, `fp16` and `int8`.
        against_fp32: `fp16` and `int8` compared with `fp32`.
        label: what the figure is called.

    Returns:
        `fail` when int8 is not finite, or its drop is beyond the limit with all of its 95%
        interval; `warn` when the limit lies in that interval, or fp16 is beyond it itself.
    """
    verdict: Verdict = "pass"
    reasons = list[str]()
    fp16, int8 = against_fp32["fp16"], against_fp32["int8"]
    if limit.drop is not None and not fp16.low <= limit.drop:
        verdict = "warn"
        reasons.append(f"fp16 itself is far from fp32: {_says(fp16, scores, label)}; {limit.key}")
    if int8.damage != int8.damage:
        verdict = "fail"
        reasons.append(f"the int8 model's outputs are not finite: {_says(int8, scores, label)}")
    elif limit.drop is not None and int8.low > limit.drop:
        verdict = "fail"
        reasons.append(f"int8 misses the budget: {_says(int8, scores, label)}; {limit.key}")
    elif limit.drop is not None and not int8.high <= limit.drop:
        verdict = "warn"
        reasons.append(
            f"too few samples to tell whether int8 meets the budget: {_says(int8, scores, label)}; "
            f"{limit.key}" + _more(int8)
        )
    return verdict, reasons


def _says(paired: PairedScore, scores: Scores, label: str) -> str:
    value, of_fp32 = scores[paired.model].value, scores["fp32"].value
    return (
        f"{label} {value:.4g}, in fp32 {of_fp32:.4g}, worse by {paired.damage:.4g} "
        f"(95% interval {paired.low:.4g} to {paired.high:.4g})"
    )


def _more(paired: PairedScore) -> str:
    if paired.samples_needed is None or paired.samples_needed <= paired.samples:
        return ""
    return f"; a drop of {paired.asked_drop:.4g} shows on about {paired.samples_needed:,} samples"
