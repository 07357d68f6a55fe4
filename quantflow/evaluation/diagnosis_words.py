"""What the experiments say in one sentence, with figures and names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, isfinite, log
from typing import Final

import numpy as np

from quantflow.artifacts.diagnosis_record import Cause, OtherRanges, Share
from quantflow.artifacts.ranges_record import TensorRange
from quantflow.evaluation.attribution import Evidence
from quantflow.evaluation.budget_words import explained, nothing
from quantflow.evaluation.diagnosis_facts import Facts
from quantflow.evaluation.experiments import NEAREST, PER_CHANNEL
from quantflow.numerics.rounding import FP16_MAX

NAMED = 2
"""Groups that are named where all of them have a part in the loss."""


FAR_BELOW, MANY_LOST = 0.25, 0.1
"""Below that share of the largest fp16, a tensor with so many values below the least is named."""


def sentence(facts: Facts) -> str:
    """What the loss comes from."""
    if not facts.found.explained:
        return nothing(facts)
    said = _cause(facts)
    return explained(facts, said) if facts.found.within else said


def _cause(facts: Facts) -> str:
    for cause, evidence in facts.found.called.items():
        return _SENTENCES[cause](facts, evidence)
    return _spread(facts)


def percent_text(share: Share) -> str:
    """``78% (62 to 90)``; beyond 100, as where fp16's own loss goes too, is all there is to say."""
    value, low, high = (100 * min(x, 1.0) for x in (share.value, share.low, share.high))
    return f"{value:.0f}% ({low:.0f} to {high:.0f})" if isfinite(low) else f"{value:.0f}%"


def _spread(facts: Facts) -> str:
    said = f"Spread: on {facts.samples} no single change surely removes half of the loss"
    # Of enough groups in fp16, which are no few, any loss goes.
    tried = [x for x in facts.found.experiments if x.cause != "layers"]
    removed = [(x.removed, x.name) for x in tried if x.removed and x.removed.value > -inf]
    if not removed:
        return f"{said}."
    share, name = max(removed, key=lambda pair: pair[0].value)
    if share.value <= 0:
        return f"{said}, nor does any lower it."
    return f"{said}; the most is {percent_text(share)}, with {name}."


def _fp16(facts: Facts, evidence: Evidence) -> str:
    islands = facts.setup.plan.island_nodes
    said = f"fp16 itself: {percent_text(evidence.share)} of the loss is there without any INT8"
    left = [x for x in facts.fp16.tensors if x.node not in islands]
    if not left:
        return f"{said}."
    largest = max(left, key=lambda x: x.absmax)
    lost = max(left, key=lambda x: x.subnormal_fraction)
    if largest.absmax < FAR_BELOW * FP16_MAX and lost.subnormal_fraction > MANY_LOST:
        share = f"{100 * lost.subnormal_fraction:.0f}%"
        return f"{said}; {share} of `{lost.tensor}` is below what fp16 holds in full, 6.1e-5."
    return f"{said}; `{largest.tensor}` reaches {largest.absmax:.4g}, and fp16 ends at 65504."


def _data(facts: Facts, evidence: Evidence) -> str:
    assert facts.found.alternatives.deployment is not None
    (other,) = facts.found.alternatives.deployment.by_name.values()
    said = f"Data: ranges from deployment samples remove {percent_text(evidence.share)} of the loss"
    return said + _of_tensor(facts, facts.found.alternatives.deployment, other, "deployment")


def _ranges(facts: Facts, evidence: Evidence) -> str:
    assert facts.found.alternatives.estimated is not None
    estimator = evidence.name.removesuffix(" ranges")
    other = facts.found.alternatives.estimated.by_name[estimator]
    said = f"Ranges: those of `{estimator}` remove {percent_text(evidence.share)} of the loss"
    return said + _of_tensor(facts, facts.found.alternatives.estimated, other, "calibration")


def _of_tensor(
    facts: Facts, found: OtherRanges, other: tuple[TensorRange, ...], samples: str
) -> str:
    """The tensor whose range changes most, and what the one in force clips of it."""
    in_force = {x.tensor: x for x in facts.setup.ranges.ranges}
    changes = [(abs(_growth(in_force[x.tensor], x)), x) for x in other]
    if not changes:
        return "."
    _, now = max(changes, key=lambda pair: pair[0])
    before, group = in_force[now.tensor], facts.trials.record.group_of(now.tensor)
    said = f"; `{group}` has {before.low:.3g} to {before.high:.3g} in force, "
    said += f"where it takes {now.low:.3g} to {now.high:.3g}"
    clipped = found.clipped.get(now.tensor, 0.0)
    if clipped < 1e-4:
        return f"{said}."
    return f"{said}, and clips {100 * clipped:.2g}% of its {samples} values."


def _growth(before: TensorRange, now: TensorRange) -> float:
    """Logarithm of how many times as wide a range is as another, zero included."""
    widths = [max(x.high, 0.0) - min(x.low, 0.0) for x in (before, now)]
    if min(widths) <= 0:
        return 0.0 if max(widths) <= 0 else inf
    return log(widths[1] / widths[0])


def _weights(facts: Facts, evidence: Evidence) -> str:
    share = percent_text(evidence.share)
    if evidence.name == PER_CHANNEL:
        said = f"Weights: one scale per output channel in place of one per tensor removes {share}"
        return f"{said} of the loss{_uneven(facts)}."
    if evidence.name == NEAREST:
        said = f"Weights: those rounded to the nearest in place of the rebuilt ones remove {share}"
        return f"{said} of the loss; {_worst(facts, NAMED)}."
    said = f"Weights: 8 bits do not suffice for them; in float they remove {share} of the loss"
    return f"{said}; {_worst(facts, NAMED)}."


def _uneven(facts: Facts) -> str:
    """The layer whose channels differ most."""
    setup = facts.setup
    before = facts.trials.factors(setup)
    after = facts.trials.factors(facts.trials.per_channel(setup))
    ratios = [
        (max(new.scale_w) / float(np.median(new.scale_w)), new.layer)
        for old, new in zip(before, after, strict=True)
        if len(old.scale_w) < len(new.scale_w)
    ]
    if not ratios:
        return ""
    ratio, layer = max(ratios)
    return f"; the largest channel of `{layer}` is {ratio:.3g} times the median one"


def _layers(facts: Facts, evidence: Evidence) -> str:
    count, of = evidence.groups
    names = ", ".join(f"`{x.group}`" for x in facts.found.alternatives.groups[:count])
    verb, share = "removes" if count == 1 else "remove", percent_text(evidence.share)
    return f"Layers: {names} in fp16, {count} of {of} INT8 groups, {verb} {share} of the loss."


def _activations(facts: Facts, evidence: Evidence) -> str:
    share = percent_text(evidence.share)
    return (
        f"Activations: 8 bits do not suffice for them, whatever the range; in float they remove "
        f"{share} of the loss; {_worst(facts, NAMED)}."
    )


def _worst(facts: Facts, count: int) -> str:
    named = facts.found.alternatives.groups[:count]
    names = " and ".join(f"`{x.group}`" for x in named)
    return f"{names} {'has' if len(named) == 1 else 'have'} the largest part in it"


_SENTENCES: Final[Mapping[Cause, Callable[[Facts, Evidence], str]]] = {
    "fp16": _fp16,
    "data": _data,
    "ranges": _ranges,
    "weights": _weights,
    "layers": _layers,
    "activations": _activations,
}
