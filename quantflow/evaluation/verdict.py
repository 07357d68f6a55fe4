"""What the outputs of the precisions say about shipping the int8 model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from quantflow.artifacts.comparison import Fidelity, Precision, TaskScore
from quantflow.artifacts.record import Verdict
from quantflow.tasks.perplexity import rise

FIDELITY_GAP = 0.001
"""Difference in mean cosine up to which the deploy file and its QDQ twin count as the same."""
FP16_COSINE = 0.999
"""Below this mean cosine of fp16 to fp32, fp16 itself is what costs accuracy."""
FP16_RISE = 0.005
"""Above this rise of the perplexity of fp16, as a fraction of fp32's, the same."""


def judge(close: Mapping[str, Fidelity], budget: float) -> tuple[Verdict, list[str]]:
    """The verdict on the outputs, with a sentence for everything that is not well.

    Args:
        close: fidelity to fp32 of `fp16`, `int8` and `qdq`.
        budget: least mean cosine of int8.

    Returns:
        `fail` when int8 misses the budget or is not finite; `warn` when fp16 itself is far from
        fp32, or the deploy file from its QDQ twin.
    """
    reasons = list[str]()
    verdict: Verdict = "pass"
    fp16, int8 = close["fp16"], close["int8"]
    if not fp16.cosine_mean >= FP16_COSINE:
        verdict = "warn"
        reasons.append(
            f"fp16 itself is far from fp32: mean cosine {fp16.cosine_mean:.6f}, "
            f"expected {FP16_COSINE} or more"
        )
    gap = abs(int8.cosine_mean - close["qdq"].cosine_mean)
    if gap > FIDELITY_GAP:
        verdict = "warn"
        reasons.append(
            f"the deploy file and its QDQ twin differ by {gap:.2g} in mean cosine, expected "
            f"{FIDELITY_GAP} or less: rounding flips alone, or a difference in what they compute"
        )
    if not np.isfinite(int8.cosine_mean):
        verdict = "fail"
        reasons.append("the int8 model's outputs are not finite")
    elif int8.cosine_mean < budget:
        verdict = "fail"
        reasons.append(
            f"int8 misses the budget: mean cosine {int8.cosine_mean:.6f}, "
            f"budget.cosine_mean is {budget}"
        )
    return verdict, reasons


def judge_agreement(
    scores: Mapping[Precision, TaskScore], least: float | None
) -> tuple[Verdict, list[str]]:
    """The verdict on the shares of decisions that are those of fp32.

    Args:
        scores: of `fp16` and `int8`.
        least: that int8 must reach, or None for any.

    Returns:
        `fail` when int8 misses the budget; `warn` when fp16 itself does.
    """
    reasons = list[str]()
    if least is None:
        return "pass", reasons
    of_fp16, of_int8 = scores["fp16"].value, scores["int8"].value
    if of_fp16 < least:
        reasons.append(f"fp16 itself decides as fp32 does in {of_fp16:.2%} of cases only")
    if of_int8 < least:
        reasons.append(
            f"int8 misses the budget: it decides as fp32 does in {of_int8:.2%} of cases, "
            f"budget.agreement_fraction is {least}"
        )
        return "fail", reasons
    return "warn" if reasons else "pass", reasons


def judge_perplexity(
    scores: Mapping[Precision, TaskScore], allowed: float | None
) -> tuple[Verdict, list[str]]:
    """The verdict on the perplexities.

    Args:
        scores: of `fp32`, `fp16` and `int8`.
        allowed: by what fraction of fp32's that of int8 may be larger, or None for any.

    Returns:
        `fail` when int8 misses the budget or is not finite; `warn` when fp16 itself is worse than
        fp32 by more than 0.5%, or not finite.
    """
    values = {name: score.value for name, score in scores.items()}
    verdict: Verdict = "pass"
    reasons = list[str]()
    of_fp16, of_int8 = (rise(values[name], values["fp32"]) for name in ("fp16", "int8"))
    if not of_fp16 <= FP16_RISE:
        verdict = "warn"
        reasons.append(
            f"fp16 itself is far from fp32: perplexity {values['fp16']:.4g}, in fp32 "
            f"{values['fp32']:.4g}"
        )
    if not np.isfinite(of_int8):
        verdict = "fail"
        reasons.append("the perplexity of the int8 model is not finite")
    elif allowed is not None and of_int8 > allowed:
        verdict = "fail"
        reasons.append(
            f"int8 misses the budget: perplexity {values['int8']:.4g}, in fp32 "
            f"{values['fp32']:.4g}, a rise of {of_int8:.1%}; "
            f"budget.perplexity_rise_fraction is {allowed}"
        )
    return verdict, reasons
