"""Ranges of all tensors come in the order of the record, with every candidate on both splits."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Group, Layer, ModelRecord
from quantflow.artifacts.ranges_record import Split
from quantflow.config import QuantizationConfig
from quantflow.graph.layer_settings import LayerSettings, TensorSettings, layer_settings
from quantflow.ranges.choose_ranges import choose_ranges
from quantflow.ranges.collect import Collection, TensorStatistics
from quantflow.ranges.estimators import SHRINKS
from quantflow.ranges.grid import observe
from quantflow.runtime.workers import Workers
from tests.distributed.threads import together

NAMES = [f"t{i}" for i in range(9)]
AUTO = QuantizationConfig(estimator="auto")


def _seen(split: Split) -> Collection:
    tensors = dict[str, TensorStatistics]()
    for index, name in enumerate(NAMES):
        rng = np.random.default_rng([index, split == "heldout"])
        values = rng.standard_normal((30, 8)).astype(np.float32) * (index + 1)
        values[0, 0] *= 1 + 10 * (index % 2)
        rows = values.astype(np.float64)
        low, high = rows.min(1), rows.max(1)
        tensors[name] = TensorStatistics(observe(values), low, high, (), {None: values})
    return Collection(tensors, tuple(map(str, range(30))))


SEEN: dict[Split, Collection] = {x: _seen(x) for x in ("calibration", "heldout")}


def _layer(name: str, **changes: object) -> Layer:
    fields = {
        "name": name,
        "node": name,
        "op_type": "MatMul",
        "role": "other",
        "group": f"g.{name[:2]}",
        "input": name[:2],
        "weight": f"w.{name}",
        "bias": None,
        "bias_node": None,
        "output": f"y.{name}",
        "macs": 8 * (NAMES.index(name[:2]) + 1),
    }
    return Layer.model_validate(fields | changes)


def _record(names: list[str], layers: list[Layer] | None = None) -> ModelRecord:
    found = layers or [_layer(f"{name}{end}") for name in names for end in "ab"]
    groups = [
        Group(
            name=f"g.{name}",
            tensor=name,
            role="other",
            layers=tuple(x.name for x in found if x.input == name),
            macs=1,
        )
        for name in names
    ]
    return ModelRecord(
        opset=18, inputs=(), outputs=(), layers=tuple(found), groups=tuple(groups), padding=()
    )


def _weight_of(layer: Layer) -> NDArray[np.float32]:
    rng = np.random.default_rng(list(layer.name.encode()))
    return rng.standard_normal((8, 4 if layer.name.endswith("a") else 6)).astype(np.float32)


def _settings(record: ModelRecord) -> LayerSettings:
    return layer_settings(record, AUTO)


def test_the_choice_does_not_depend_on_the_other_tensors() -> None:
    record, done = _record(NAMES[::-1]), list[int]()
    ranges, rows = choose_ranges(
        record,
        _weight_of,
        SEEN,
        _settings(record),
        progress=lambda _, n, total: done.append(n),
    )
    assert [x.tensor for x in ranges] == NAMES[::-1] and done == list(range(1, 10))
    single = [_record([name]) for name in NAMES[::-1]]
    alone = [choose_ranges(x, _weight_of, SEEN, _settings(x)) for x in single]
    assert ranges == [chosen for one, _ in alone for chosen in one]
    assert rows == [row for _, some in alone for row in some]
    assert len(rows) == len(NAMES) * 2 * (4 + len(SHRINKS))
    assert [(x.tensor, x.split) for x in rows if x.chosen] == [
        (name, split) for name in NAMES[::-1] for split in ("calibration", "heldout")
    ]


@pytest.mark.parametrize("count", [2, 4, 11])
def test_workers_choose_what_one_process_chooses(count: int) -> None:
    record = _record(NAMES)
    expected = choose_ranges(record, _weight_of, SEEN, _settings(record))

    def work(workers: Workers):
        return choose_ranges(record, _weight_of, SEEN, _settings(record), workers=workers)

    for found in together(count, work):
        assert found == expected


def test_settings_of_a_tensor_hold_for_it_alone() -> None:
    record = _record(NAMES[:2])
    told = _settings(record)
    own = TensorSettings(estimator="percentile", symmetric=True, percentile=75.0)
    told = LayerSettings(tensors={**told.tensors, "t1": own}, granularity=told.granularity)
    (first, second), _ = choose_ranges(record, _weight_of, SEEN, told)
    values = np.abs(SEEN["calibration"].tensors["t1"].rows[None])
    assert (second.estimator, second.symmetric, second.low) == ("percentile", True, -second.high)
    assert second.high == pytest.approx(np.percentile(values, 75), rel=0.02)
    assert not first.symmetric


def test_a_tensor_that_no_layer_with_a_weight_reads_keeps_its_extremes() -> None:
    pair = _layer("t1a", weight="", second_input="t2")
    pool = _layer("t3a", weight="", op_type="AveragePool")
    record = _record(["t1", "t3"], [pair, pool])
    ranges, rows = choose_ranges(record, _weight_of, SEEN, _settings(record))
    assert [x.tensor for x in ranges] == ["t1", "t3", "t2"]
    assert {x.estimator for x in ranges} == {"minmax"}
    assert [x.symmetric for x in ranges] == [True, False, True]
    assert {row.group for row in rows if row.tensor == "t2"} == {"g.t1"}
    for chosen in ranges:
        hist = SEEN["calibration"].tensors[chosen.tensor].histogram
        reach = hist.absmax
        expected = (-reach, reach) if chosen.symmetric else (hist.low, hist.high)
        assert (chosen.low, chosen.high) == expected
