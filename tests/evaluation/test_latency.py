"""Times of two models in turns; expected figures by numpy from the times that were planted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from quantflow.artifacts.om_run import Latency
from quantflow.errors import QuantflowError
from quantflow.evaluation import latency
from quantflow.evaluation.latency import measure_latency
from quantflow.evaluation.side_runner import om_names


class Clocked:
    """A model whose executions take planted times."""

    def __init__(self, name: str, times: Iterator[float], log: list[str]) -> None:
        self.name, self.times, self.log, self.last_ms = name, times, log, float("nan")
        self.device = "a chip"

    def run(self, feeds: Any) -> dict[str, Any]:
        self.log.append(self.name)
        self.last_ms = next(self.times)
        return {}


def test_warm_up_does_not_count_and_drift_cancels_in_the_ratio() -> None:
    log = list[str]()
    total = latency.WARM_UP + latency.ROUNDS
    drift = np.linspace(1, 3, total)  # a chip that gets three times slower
    noise = np.random.default_rng(0).uniform(0.99, 1.01, (2, total))
    planted = np.stack([10 * drift, 4 * drift]) * noise
    planted[:, : latency.WARM_UP] = 1e6
    models = [(x, Clocked(x, iter(planted[i].tolist()), log)) for i, x in enumerate("ab")]
    found = measure_latency(models, {"x": np.zeros((8, 2))}, lambda *_: None)  # type: ignore[arg-type]
    assert isinstance(found, Latency)
    counted = planted[:, latency.WARM_UP :]
    for side, times in zip(found.sides, counted, strict=True):
        assert side.median_ms == pytest.approx(np.median(times))
        assert side.p10_ms == pytest.approx(np.percentile(times, 10))
        assert side.p90_ms == pytest.approx(np.percentile(times, 90))
    assert found.batch == 8 and found.device == "a chip"
    assert found.ratio == pytest.approx(np.median(counted[1]) / np.median(counted[0]))
    assert found.ratio_low is not None and found.ratio_high is not None
    # Drawn separately, medians would differ by drift alone; rounds stay together.
    assert 0.39 < found.ratio_low <= found.ratio <= found.ratio_high < 0.41
    assert sorted(log) == ["a"] * total + ["b"] * total
    assert "".join(log[:8]) == "abbaabba"  # neither is always first


def test_one_model_has_no_ratio() -> None:
    times = iter(np.arange(1.0, 1000.0))
    found = measure_latency([("a", Clocked("a", times, []))], {"x": np.zeros(3)}, lambda *_: None)  # type: ignore[list-item]
    assert isinstance(found, Latency)
    assert found.ratio is None and len(found.sides) == 1


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -5.0, 0.0])
def test_what_is_no_time_is_said_and_makes_no_figure(odd: float) -> None:
    times = iter([1.0] * 20 + [odd] + [1.0] * 1000)
    models = [("a", Clocked("a", iter([1.0] * 1000), [])), ("b", Clocked("b", times, []))]
    found = measure_latency(models, {"x": np.zeros(3)}, lambda *_: None)  # type: ignore[arg-type]
    assert isinstance(found, str) and "no time was measured: b" in found and str(odd) in found


def test_outputs_go_by_name_where_all_are_told_and_else_by_order() -> None:
    assert om_names(["n:0:b", "m:0:a"], ["a", "b"], "f") == {"a": "m:0:a", "b": "n:0:b"}
    assert om_names(["b", "a"], ["a", "b"], "f") == {"a": "a", "b": "b"}
    assert om_names(["n:0", "m:0"], ["a", "b"], "f") == {"a": "n:0", "b": "m:0"}
    assert om_names(["n:0:a", "m:0:x"], ["b", "a"], "f") == {"b": "n:0:a", "a": "m:0:x"}
    with pytest.raises(QuantflowError, match="QF543"):
        om_names(["a"], ["a", "b"], "f")
