"""What the outputs of the precisions say about shipping the int8 model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from quantflow.artifacts.comparison import Fidelity
from quantflow.artifacts.record import Verdict

FIDELITY_GAP = 0.001
"""Difference in mean cosine up to which the deploy file and its QDQ twin count as the same."""
FP16_COSINE = 0.999
"""Below this mean cosine of fp16 to fp32, fp16 itself is what costs accuracy."""


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
