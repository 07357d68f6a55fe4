"""Ranges of all tensors come in the order of the groups, with every candidate on both splits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Group
from quantflow.artifacts.ranges_record import Split
from quantflow.config import QuantizationConfig
from quantflow.ranges.choose_ranges import choose_ranges
from quantflow.ranges.collect import Collection, TensorStatistics
from quantflow.ranges.estimators import SHRINKS
from quantflow.ranges.grid import observe

NAMES = [f"t{i}" for i in range(9)]


def _seen(split: Split) -> Collection:
    tensors = dict[str, TensorStatistics]()
    for index, name in enumerate(NAMES):
        rng = np.random.default_rng([index, split == "heldout"])
        values = rng.standard_normal((30, 8)).astype(np.float32) * (index + 1)
        values[0, 0] *= 1 + 10 * (index % 2)
        rows = values.astype(np.float64)
        low, high = rows.min(1), rows.max(1)
        tensors[name] = TensorStatistics(observe(values), low, high, (), values)
    return Collection(tensors, tuple(map(str, range(30))))


def _weights(tensor: str) -> list[NDArray[np.float32]]:
    rng = np.random.default_rng(NAMES.index(tensor))
    return [rng.standard_normal((8, width)).astype(np.float32) for width in (4, 6)]


def test_the_choice_does_not_depend_on_the_other_tensors() -> None:
    seen: dict[Split, Collection] = {x: _seen(x) for x in ("calibration", "heldout")}
    groups = [
        Group(name=f"g.{x}", tensor=x, role="other", layers=(x,), macs=1) for x in NAMES[::-1]
    ]
    config = QuantizationConfig(estimator="auto")
    done: list[int] = []
    ranges, rows = choose_ranges(groups, _weights, seen, config, lambda _, n, total: done.append(n))
    assert [x.tensor for x in ranges] == NAMES[::-1] and done == list(range(1, 10))
    alone = [choose_ranges([group], _weights, seen, config) for group in groups]
    assert ranges == [chosen for one, _ in alone for chosen in one]
    assert rows == [row for _, some in alone for row in some]
    assert len(rows) == len(NAMES) * 2 * (4 + len(SHRINKS))
    assert [(x.tensor, x.split) for x in rows if x.chosen] == [
        (name, split) for name in NAMES[::-1] for split in ("calibration", "heldout")
    ]
