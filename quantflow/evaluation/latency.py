"""How long models take on a device, taking turns so that drift hits all of them alike."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.om_run import Latency, SideTimes
from quantflow.numerics.bootstrap import bootstrap_interval
from quantflow.progress import Progress
from quantflow.runtime.om_model import OmModel
from quantflow.runtime.runner import Feeds

WARM_UP = 10
"""Executions of each model before any counts: the first ones load kernels and raise the clock."""

ROUNDS = 100
"""Executions of each model that count."""


def measure_latency(
    models: Sequence[tuple[str, OmModel]], feeds: Feeds, progress: Progress
) -> Latency | str:
    """Time one model, or two in turns: A B, B A, A B and so on.

    Args:
        models: name and model, at most two of one device, the reference first.
        feeds: of one execution.
        progress: called after every round.

    Returns:
        The times; or, where a model reports what is no time, a sentence that says so.
    """
    times = np.zeros((len(models), ROUNDS))
    for number in range(-WARM_UP, ROUNDS):
        turns = range(len(models))
        for place in reversed(turns) if number % 2 else turns:
            model = models[place][1]
            model.run(feeds)
            if not 0 < model.last_ms < inf:
                name = models[place][0]
                return f"no time was measured: {name} is said to take {model.last_ms} ms"
            if number >= 0:
                times[place, number] = model.last_ms
        progress("timing", number + WARM_UP + 1, WARM_UP + ROUNDS)
    sides = tuple(_times(name, x) for (name, _), x in zip(models, times, strict=True))
    found = Latency(
        device=models[0][1].device,
        batch=len(next(iter(feeds.values()))),
        warm_up=WARM_UP,
        rounds=ROUNDS,
        sides=sides,
    )
    return found if len(models) == 1 else found.model_copy(update=_ratio(times))


def _times(name: str, times: NDArray[np.float64]) -> SideTimes:
    p10, median, p90 = (float(x) for x in np.quantile(times, [0.1, 0.5, 0.9]))
    return SideTimes(side=name, median_ms=median, p10_ms=p10, p90_ms=p90)


def _ratio(times: NDArray[np.float64]) -> dict[str, float]:
    """Of the medians; rounds are drawn, so that both models' executions of a round stay together.

    Args:
        times: ``(2, rounds)``, the reference first.
    """

    def ratio(draw: NDArray[np.intp]) -> float:
        reference, other = np.median(times[:, draw], axis=1)
        return float(other / reference)

    low, high = bootstrap_interval(ratio, times.shape[1], seed=0)
    whole = ratio(np.arange(times.shape[1], dtype=np.intp))
    return {"ratio": whole, "ratio_low": low, "ratio_high": high}
