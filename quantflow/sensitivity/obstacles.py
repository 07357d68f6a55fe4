"""What stands in the way when no plan meets the budget, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import expm1

from quantflow.artifacts.record import Verdict
from quantflow.artifacts.sweep_record import CurvePoint, Measure, PolicyResult, SideResult
from quantflow.sensitivity.search import Limits
from quantflow.tasks.criteria import Criterion

_SIDES = {
    "fp16": "fp16 itself, with nothing in INT8, misses the budget: {}; see `quantflow show fp16`",
    "weights": "rounding the weights alone misses the budget: {}; `quantflow show scores` has the "
    "groups whose weights hurt, and weight_granularity 'per-channel' is the finest there is",
    "activations": "quantizing the activations alone misses the budget: {}; {}",
}

_DATA = (
    "the data are in question, since held-out samples leave the calibrated ranges: see "
    "`quantflow show coverage`"
)
_RANGES = (
    "held-out samples stay within the calibrated ranges, so it is the ranges themselves: compare "
    "the estimators in `quantflow show ranges`"
)


def missed(measures: Sequence[Measure], criteria: Mapping[str, Criterion]) -> str:
    """The measures beyond their limits, each with what set it."""
    return ", ".join(
        f"{told(measure)} where {criteria[measure.metric].key}"
        for measure in measures
        if not measure.meets
    )


def told(measure: Measure) -> str:
    """A measure in a few words."""
    if measure.metric == "perplexity":
        return f"perplexity {measure.value:.4g}, a rise of {expm1(measure.damage):.1%},"
    if measure.metric == "function":
        return f"a drop of the task's figure by {measure.damage:.4g} to {measure.value:.4g}"
    digits = 6 if measure.value < 0.999999 else 9
    return f"mean {measure.metric} {measure.value:.{digits}f}"


def obstacles(
    best: PolicyResult,
    sides: Sequence[SideResult],
    criteria: Mapping[str, Criterion],
    limits: Limits,
    beyond: CurvePoint | None,
    coverage: Verdict,
    *,
    pinned: bool = False,
) -> tuple[str, ...]:
    """Why the budget is not met, the plainest reason first.

    Args:
        best: the plan that comes nearest, on the verification samples.
        sides: each side of quantization alone.
        criteria: what plans are measured by.
        limits: of INT8 share and number of fp16 groups.
        beyond: a plan that meets the accuracy asked for on the search samples without limits and
            pins; None where there is none.
        coverage: whether the held-out samples stay within the calibrated ranges.
        pinned: whether the precision of groups is given.
    """
    in_the_way = _limits(limits, pinned=pinned)
    return tuple(_obstacles(best, sides, criteria, in_the_way, beyond, coverage))


def _obstacles(
    best: PolicyResult,
    sides: Sequence[SideResult],
    criteria: Mapping[str, Criterion],
    in_the_way: str,
    beyond: CurvePoint | None,
    coverage: Verdict,
) -> Iterator[str]:
    share = f"{best.int8_mac_fraction:.1%} of MACs in INT8"
    lacking = missed(best.measures, criteria) or "it goes beyond the limits"
    yield (
        f"no plan meets the budget: the best has {best.fp16_groups} groups in fp16, {share}; "
        f"{lacking}"
    )
    if beyond is not None:
        yield (
            f"what stands in the way is {in_the_way}: without, the accuracy takes "
            f"{len(beyond.fp16_groups)} groups in fp16, {beyond.int8_mac_fraction:.1%} of MACs in "
            "INT8, as the search samples have it"
        )
    for side in sides:
        lacking = missed(side.measures, criteria)
        if lacking and side.side in _SIDES:
            advice = _RANGES if coverage == "pass" else _DATA
            yield _SIDES[side.side].format(lacking, advice)


def _limits(limits: Limits, *, pinned: bool) -> str:
    said = ["plan.pins"] if pinned else list[str]()
    if limits.int8_mac_fraction:
        said.append(f"budget.int8_mac_fraction = {limits.int8_mac_fraction}")
    if limits.fp16_groups is not None:
        said.append(f"budget.fp16_groups = {limits.fp16_groups}")
    return " and ".join(said)
