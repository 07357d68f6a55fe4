"""What the outputs of the precisions say about shipping the int8 model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log1p
from typing import Final

import numpy as np

from quantflow.artifacts.comparison import Fidelity, Precision
from quantflow.artifacts.record import Verdict
from quantflow.artifacts.sweep_record import Measure
from quantflow.tasks.criteria import Criterion

FIDELITY_GAP = 0.001
"""Difference in mean cosine up to which the deploy file and its QDQ twin count as the same."""
FP16_COSINE = 0.999
"""Below this mean cosine of fp16 to fp32, fp16 itself is what costs accuracy."""
FP16_RISE = 0.005
"""Above this rise of the perplexity of fp16, as a fraction of fp32's, the same."""

Found = Mapping[Precision, Measure]

_FP16: Final[dict[str, tuple[float, str]]] = {
    "cosine": (1 - FP16_COSINE, f"expected {FP16_COSINE} or more"),
    "perplexity": (log1p(FP16_RISE), f"expected {FP16_RISE} at most"),
}
"""Greatest damage of fp16 by metric, and how that is said; of others what int8 is allowed."""


def judge(criterion: Criterion, found: Found, figure: str = "") -> tuple[Verdict, list[str]]:
    """The verdict by one criterion, with a sentence for everything that is not well.

    Args:
        criterion: what is asked.
        found: of `fp16` and `int8`, and of `fp32` but for the cosine.
        figure: what a user's own figure is called.

    Returns:
        `fail` when int8 misses the budget or is not finite, `warn` when fp16 itself is far from
        fp32: it misses the budget too, or what float16 rounding may explain.
    """
    verdict: Verdict = "pass"
    reasons = list[str]()
    says = _SAYINGS[criterion.name]
    of_fp16, of_int8 = found["fp16"], found["int8"]
    allowed, expected = _FP16.get(criterion.name, (criterion.limit, criterion.key))
    if allowed is not None and not of_fp16.damage <= allowed:
        verdict = "warn"
        reasons.append(f"fp16 itself is far from fp32: {says('fp16', found, figure)}; {expected}")
    if not np.isfinite(of_int8.damage):
        verdict = "fail"
        reasons.append(f"the int8 model's outputs are not finite: {says('int8', found, figure)}")
    elif criterion.limit is not None and of_int8.damage > criterion.limit:
        verdict = "fail"
        reasons.append(f"int8 misses the budget: {says('int8', found, figure)}; {criterion.key}")
    return verdict, reasons


def judge_twins(close: Mapping[str, Fidelity]) -> tuple[Verdict, list[str]]:
    """Whether the deploy file and its QDQ twin are as close to fp32 as one another.

    Args:
        close: fidelity to fp32 of `int8` and `qdq`.

    Returns:
        `warn` when they are not.
    """
    gap = abs(close["int8"].cosine_mean - close["qdq"].cosine_mean)
    if not gap > FIDELITY_GAP:  # NaN is said elsewhere
        return "pass", []
    return "warn", [
        f"the deploy file and its QDQ twin differ by {gap:.2g} in mean cosine, expected "
        f"{FIDELITY_GAP} or less: rounding flips alone, or a difference in what they compute"
    ]


def _cosine(name: Precision, found: Found, _: str) -> str:
    return f"mean cosine {found[name].value:.6f}"


def _perplexity(name: Precision, found: Found, _: str) -> str:
    of_fp32, measure = found["fp32"].value, found[name]
    with np.errstate(over="ignore"):
        rise = float(np.expm1(measure.damage))
    return f"perplexity {measure.value:.4g}, in fp32 {of_fp32:.4g}, a rise of {rise:.1%}"


def _agreement(name: Precision, found: Found, _: str) -> str:
    return f"it decides as fp32 does in {found[name].value:.2%} of cases"


def _function(name: Precision, found: Found, figure: str) -> str:
    of_fp32, measure = found["fp32"].value, found[name]
    return (
        f"mean {figure} {measure.value:.4g}, in fp32 {of_fp32:.4g}, worse by {measure.damage:.4g}"
    )


_SAYINGS: Final[dict[str, Callable[[Precision, Found, str], str]]] = {
    "cosine": _cosine,
    "perplexity": _perplexity,
    "agreement": _agreement,
    "function": _function,
}
