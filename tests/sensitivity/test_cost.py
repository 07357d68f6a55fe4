"""What a plan costs, counted by hand on small graphs (C45)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.sensitivity.cost import CostModel, cost_model
from tests.graph.masked_blocks import Described, describe
from tests.graph.models import build, rand

from .projects import read_sweep, run_until, write_project


def thin_and_thick() -> onnx.ModelProto:
    """A depthwise convolution, and a pointwise one with many channels."""
    return build(
        """(float[batch,8,6,6] x) => (float[batch,256,6,6] y) {
        d = Conv<group=8, pads=[1,1,1,1]>(x, w0) r = Relu(d) p = Conv(r, w1) t = Tanh(p)
        y = Conv(t, w2) }""",
        {"w0": rand(8, 1, 3, 3), "w1": rand(256, 8, 1, 1), "w2": rand(256, 256, 1, 1, scale=0.1)},
    )


@pytest.fixture(scope="module")
def convolutions() -> Described:
    return describe(thin_and_thick(), {"batch": 2}, mask=None)


def test_macs_and_boundary_elements_are_those_counted_by_hand(convolutions: Described) -> None:
    found = cost_model(convolutions.static, convolutions.record, 16.0)
    batch, pixels = 2, 36
    macs = {"n_d": 9 * 8 * pixels, "n_p": 8 * 256 * pixels, "n_y": 256 * 256 * pixels}
    elements = {"n_d": (8 + 8) * pixels, "n_p": (8 + 256) * pixels, "n_y": (256 + 256) * pixels}
    assert set(found.int8) == set(found.fp16) == set(macs)
    for name in macs:
        assert found.fp16[name] == 2 * batch * macs[name]
        assert found.int8[name] == batch * (macs[name] + 16 * elements[name])
        assert found.saved(name) == batch * (macs[name] - 16 * elements[name])
    # 9 MACs an element do not pay for two boundaries, 256 do.
    assert found.saved("n_d") < 0 < found.saved("n_y")
    assert found.float_layers == 0


def test_without_a_price_for_boundaries_macs_alone_count(convolutions: Described) -> None:
    found = cost_model(convolutions.static, convolutions.record, 0.0)
    for group in convolutions.record.groups:
        assert found.int8[group.name] == 2 * group.macs and found.saved(group.name) > 0
    assert found.of([]) == 0.5 and found.of([x.name for x in convolutions.record.groups]) == 1


def test_a_group_reads_its_tensor_once_and_writes_every_output() -> None:
    proto = build(
        "(float[batch,5,8] x) => (float[batch,5,12] y) { q = MatMul(x, wq) k = MatMul(x, wk) "
        "y = Concat<axis=-1>(q, k) }",
        {"wq": rand(8, 8), "wk": rand(8, 4)},
    )
    found = describe(proto, {"batch": 3}, mask=None)
    (group,) = found.record.groups
    assert len(group.layers) == 2
    cost = cost_model(found.static, found.record, 1.0)
    elements = 3 * 5 * (8 + 8 + 4)
    assert cost.int8[group.name] == 3 * 5 * 8 * (8 + 4) + elements


def test_a_product_of_two_variables_has_two_inputs_at_the_boundary() -> None:
    found = describe(thin_and_thick(), {"batch": 2}, mask=None)
    layers = tuple(
        x.model_copy(update={"second_input": "x"}) if x.name == "n_p" else x
        for x in found.record.layers
    )
    record = found.record.model_copy(update={"layers": layers})
    before, after = (cost_model(found.static, x, 1.0).int8["n_p"] for x in (found.record, record))
    assert after - before == 2 * 8 * 36


def test_layers_that_are_never_int8_cost_what_they_cost_in_fp16() -> None:
    proto = build(
        "(float[batch,8] x) => (float[batch,2] y) { a = MatMul(x, w0) y = MatMul(a, w1) }",
        {"w0": rand(8, 8), "w1": rand(8, 2)},
    )
    found = describe(proto, {"batch": 4}, mask=None)
    first, second = found.record.layers
    record = found.record.model_copy(
        update={
            "layers": (first, second.model_copy(update={"float_reason": "a test's"})),
            "groups": found.record.groups[:1],
        }
    )
    cost = cost_model(found.static, record, 0.0)
    assert list(cost.int8) == [first.name] and cost.float_layers == 2 * 4 * 16
    assert cost.of([]) == (4 * 64 + 2 * 4 * 16) / (2 * 4 * (64 + 16))
    assert cost.of([first.name]) == 1


def test_a_model_that_costs_nothing_costs_as_much_as_itself() -> None:
    assert CostModel({}, {}, 0.0).of([]) == 1


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=6))
def test_what_a_group_saves_is_what_the_plan_costs_less(sizes: list[tuple[int, int]]) -> None:
    int8 = {f"g{i}": float(a) for i, (a, _) in enumerate(sizes)}
    fp16 = {f"g{i}": float(b) for i, (_, b) in enumerate(sizes)}
    cost = CostModel(int8, fp16, 5.0)
    total = sum(fp16.values()) + 5
    assert cost.of(int8) == pytest.approx(1)
    for name in int8:
        others = [x for x in int8 if x != name]
        assert (1 - cost.of(others)) * total == pytest.approx(cost.saved(name))


# --- what the plan makes of it ------------------------------------------------------------------


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    arrays = {"x": np.stack([rand(8, 6, 6, seed=i) for i in range(40)])}
    config = write_project(tmp_path_factory.mktemp("thin"), thin_and_thick(), arrays, {"batch": 2})
    run_until("20_ranges", config)
    return config


def test_a_thin_layer_goes_to_fp16_where_that_is_cheaper_and_asked_for(project: Path) -> None:
    run_until("30_sweep", project)
    plan, record = read_sweep(project)
    assert plan.fp16_groups == [] and record.verified
    run_until("30_sweep", project, "plan.fp16_where_cheaper=true")
    plan, record = read_sweep(project)
    assert plan.fp16_groups == ["n_d", "n_p"] and record.verified
    assert all("cost" in plan.groups[name].reason for name in plan.fp16_groups)
    costs = {x.policy: x.cost for x in record.policies}
    assert costs["auto"] < costs["none"]
    # Every set that is tried holds them.
    assert all({"n_d", "n_p"} <= set(point.fp16_groups) for point in record.curve)


@pytest.mark.parametrize(
    "setting", ["plan.boundary_macs=0.0", "budget.fp16_groups=1", "budget.int8_mac_fraction=0.999"]
)
def test_nothing_moves_for_its_cost_beyond_the_limits_or_without_a_cost(
    project: Path, setting: str
) -> None:
    run_until("30_sweep", project, "plan.fp16_where_cheaper=true", setting)
    plan, record = read_sweep(project)
    assert plan.fp16_groups == [] and record.verified


def test_a_pin_to_int8_holds_whatever_it_costs(project: Path) -> None:
    pins = 'plan.pins=[{pattern="n_d", precision="int8"}]'
    run_until("30_sweep", project, "plan.fp16_where_cheaper=true", pins)
    assert read_sweep(project)[0].fp16_groups == ["n_p"]
