"""What samples say of a plan: every criterion's mean damage with its interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf, isnan

from quantflow.artifacts.sweep_record import Measure
from quantflow.sensitivity.probe import Probe
from quantflow.tasks.criteria import Criterion
from quantflow.tasks.figures import measure
from quantflow.tasks.metrics import Values


def measures_of(
    criteria: Mapping[str, Criterion], values: Mapping[str, Values], probe: Probe, *, seed: int
) -> tuple[Measure, ...]:
    """Put samples together, in the order of the criteria.

    Args:
        criteria: by name; those without values are left out.
        values: ``(S,)`` of the plan's model, by name.
        probe: has the samples' weights and what the float model has.
        seed: of the bootstrap.
    """
    return tuple(
        measure(criterion, values[name], probe.of_float[name], probe.weights[name], seed=seed)
        for name, criterion in criteria.items()
        if name in values
    )


def shortfall(measures: Iterable[Measure]) -> float:
    """How many times the greatest allowed damage there is, of the measure that is worst off.

    1 or less within the budget; infinite where an output is broken.
    """
    return max((_ratio(measure) for measure in measures if measure.limit is not None), default=0.0)


def _ratio(measure: Measure) -> float:
    assert measure.limit is not None
    if isnan(measure.damage):
        return inf
    if measure.damage <= 0:
        return 0.0
    return measure.damage / measure.limit if measure.limit else inf
