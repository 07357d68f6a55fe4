"""Which layers are INT8, with which factors, and the reason where they are not."""

import numpy as np
import pytest
from onnx import helper

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PlannedGroup, PrecisionPlan
from quantflow.artifacts.ranges_record import RangesRecord, TensorRange
from quantflow.errors import QuantflowError
from quantflow.export.factors import layer_factors
from quantflow.export.int8_fraction import int8_mac_fraction
from quantflow.export.integers import accumulator_bound, layer_integers
from quantflow.export.weight_scale import layer_weight_scales
from quantflow.graph.layers import describe_model
from tests.export.builders import export, linear, make_plan, make_ranges, onnx_model, run

RNG = np.random.default_rng(7)


def weight(k=6, n=5):
    return RNG.normal(size=(k, n)).astype(np.float32)


def shared_input(biases):
    """Layers l0, l1, ... that all read x; a bias each."""
    nodes, constants = [], {}
    for i, bias in enumerate(biases):
        constants |= {f"w{i}": weight(6, len(bias)), f"b{i}": np.asarray(bias, np.float32)}
        nodes.append(helper.make_node("Gemm", ["x", f"w{i}", f"b{i}"], [f"y{i}"], name=f"l{i}"))
    outputs = [f"y{i}" for i in range(len(biases))]
    return onnx_model(nodes, {"x": [4, 6]}, outputs, constants)


def test_per_channel_scales_are_the_absmax_of_each_output_channel_over_127():
    w = weight()
    entry = export(linear(w, None, "MatMul"), {"x": (-1.0, 3.0)}).factors_of("l")
    assert entry.precision == "int8" and entry.reason == ""
    assert np.allclose(entry.scale_w, np.abs(w).max(axis=0) / 127, rtol=1e-6)
    assert entry.scale_d == pytest.approx(4.0 / 255) and entry.offset_d == round(-128 + 255 / 4)


def test_per_tensor_gives_one_scale():
    w = weight()
    exported = export(linear(w, None, "MatMul"), {"x": (-1.0, 1.0)}, granularity="per-tensor")
    assert exported.factors_of("l").scale_w == (pytest.approx(np.abs(w).max() / 127),)


def test_a_layer_that_cannot_be_int8_falls_back_alone():
    model = shared_input([[1.0], [1e12], [2.0]])
    exported = export(model, {"x": (-1.0, 1.0)})
    assert len({layer.group for layer in exported.record.layers}) == 1
    assert [entry.precision for entry in exported.factors] == ["int8", "fp16", "int8"]
    assert "bias leaves int32" in exported.factors[1].reason
    x = RNG.uniform(-1, 1, (4, 6)).astype(np.float32)
    # The layer that fell back reads the float tensor and is exact.
    float_y = run(model, {"x": x})["y1"]
    nodes = {node.name: node for node in exported.deploy.graph}
    assert nodes["l1"].inputs[0].name == "x" and nodes["l0"].inputs[0].name != "x"
    assert np.array_equal(run(exported.qdq, {"x": x})["y1"], float_y)


@pytest.mark.parametrize("bound", [255 * 2.0**-24, 255 * 2.0**24])
def test_an_activation_scale_whose_reciprocal_leaves_the_bounds_is_a_reason(bound):
    entry = export(linear(weight(), None, "MatMul"), {"x": (0.0, bound)}).factors_of("l")
    assert entry.precision == "fp16" and "2^-23" in entry.reason
    assert entry.scale_d is None and entry.scale_w == ()


@pytest.mark.parametrize("bound", [255 * 2.0**-23, 255 * 2.0**23])
def test_the_bounds_of_the_reciprocal_belong_to_int8(bound):
    entry = export(linear(weight(), None, "MatMul"), {"x": (0.0, bound)}).factors_of("l")
    assert entry.precision == "int8"


def test_a_dequantization_scale_beyond_float32_is_a_reason():
    w = weight() * np.float32(1e37)
    entry = export(linear(w, None, "MatMul"), {"x": (0.0, 1e6)}).factors_of("l")
    assert entry.precision == "fp16" and "scale_d * scale_w" in entry.reason


@pytest.mark.parametrize(
    ("bias", "precision", "reason"),
    [
        (2.0**31, "fp16", "bias leaves int32"),
        (-(2.0**31) - 256, "fp16", "bias leaves int32"),
        # Fits, but the products, up to 127 * 128 = 16,256, may carry the sum out.
        (2.0**31 - 2**13, "fp16", "accumulator may leave int32"),
        (2.0**31 - 2**14, "int8", ""),
    ],
)
def test_int32_decides_to_the_last_step(bias, precision, reason):
    # Both scales are exactly 1, so that a unit of the bias is a step.
    w = np.array([[127.0]], np.float32)
    exported = export(linear(w, np.array([bias], np.float32), "Gemm"), {"x": (-128.0, 127.0)})
    entry = exported.factors_of("l")
    assert entry.precision == precision and reason in entry.reason


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_constant_that_is_not_finite_is_a_reason(bad):
    w = weight()
    w[2, 3] = bad
    assert "weight" in export(linear(w, None, "Gemm"), {"x": (0.0, 1.0)}).factors_of("l").reason
    b = np.array([0, bad, 0, 0, 0], np.float32)
    entry = export(linear(weight(), b, "Gemm"), {"x": (0.0, 1.0)}).factors_of("l")
    assert "bias" in entry.reason


def test_an_accumulator_that_may_leave_int32_is_a_reason():
    # 255 * 127 * K exceeds 2^31 from K = 66,312 on.
    w = np.ones((66_312, 1), np.float32)
    entry = export(linear(w, None, "MatMul"), {"x": (0.0, 1.0)}).factors_of("l")
    assert entry.precision == "fp16" and "accumulator" in entry.reason
    entry = export(linear(w[:66_311], None, "MatMul"), {"x": (0.0, 1.0)}).factors_of("l")
    assert entry.precision == "int8"


def test_the_accumulator_bound_is_reached_by_the_worst_input():
    w = RNG.normal(size=(9, 4)).astype(np.float32)
    integers = layer_integers(w, np.ones(4, np.float32), 0.1, np.full(4, 0.02, np.float32))
    for zero_point in (-128, -5, 100, 127):
        extremes = np.array([-128 - zero_point, 127 - zero_point])
        signs = np.sign(integers.weight.astype(np.int64))
        worst = [
            np.abs(np.where(signs >= 0, a, b) * integers.weight.astype(np.int64)).sum(axis=0)
            for a, b in (extremes, extremes[::-1])
        ]
        assert accumulator_bound(integers, zero_point) >= np.max(worst)


def test_the_plan_keeps_a_group_in_fp16_and_says_why():
    model = linear(weight(), None, "MatMul")
    record = describe_model(model, {}, mask=None, notes=[])
    groups = {"l": PlannedGroup(precision="fp16", reason="costs 2% of accuracy")}
    plan = PrecisionPlan(policy="none", groups=groups)
    (entry,) = layer_factors(model, record, make_ranges({"x": (0, 1)}), plan, "per-channel")
    assert entry.precision == "fp16" and entry.reason == "costs 2% of accuracy"


def test_an_island_that_is_not_int8_is_fp32_and_one_that_is_stays_int8():
    model = linear(weight(), weight(1, 5)[0], "MatMul")
    fallen = export(model, {"x": (-1, 1)}, fp16=["l"], islands=["l_bias"])
    assert fallen.factors_of("l").precision == "fp32"
    kept = export(model, {"x": (-1, 1)}, islands=["l"])
    assert kept.factors_of("l").precision == "int8"


def test_a_layer_without_a_range_stays_float():
    entry = export(linear(weight(), None, "MatMul"), {"other": (-1, 1)}).factors_of("l")
    assert entry.precision == "fp16" and "range" in entry.reason


def test_a_plan_for_other_groups_is_refused_with_all_its_problems():
    model = linear(weight(), None, "MatMul")
    record = describe_model(model, {}, mask=None, notes=[])
    plan = PrecisionPlan(policy="none", groups={"ll": PlannedGroup(precision="int8")})
    with pytest.raises(QuantflowError) as caught:
        layer_factors(model, record, make_ranges({"x": (0, 1)}), plan, "per-channel")
    assert [problem.code for problem in caught.value.problems] == ["QF542", "QF542"]
    assert "'l'" in str(caught.value)


@pytest.mark.parametrize("tiny", [0.0, 1e-41])
@pytest.mark.parametrize("granularity", ["per-channel", "per-tensor"])
def test_a_dead_channel_keeps_its_bias_and_the_layer_stays_int8(tiny, granularity):
    # C12, C25: scale 1 for a channel of zeros would store this bias in steps of scale_d.
    w, b = weight() * np.float32(0.05), np.full(5, 0.013, np.float32)
    w[:, 2] = tiny
    exported = export(linear(w, b, "MatMul"), {"x": (-20.0, 30.0)}, granularity=granularity)
    entry = exported.factors_of("l")
    assert entry.precision == "int8"
    assert all(np.isfinite(entry.scale_w)) and min(entry.scale_w) > 0
    x = RNG.uniform(-20, 30, (4, 6)).astype(np.float32)
    y = run(exported.qdq, {"x": x})["y"]
    step = entry.scale_d * max(entry.scale_w)
    assert np.abs(y[:, 2] - 0.013).max() <= step / 2 + 1e-7
    assert step < 0.001


@pytest.mark.parametrize("bias", [None, 3.0])
@pytest.mark.parametrize("granularity", ["per-channel", "per-tensor"])
def test_an_all_zero_weight_gives_its_bias(bias, granularity):
    b = None if bias is None else np.array([bias, -bias], np.float32)
    exported = export(
        linear(np.zeros((3, 2), np.float32), b, "Gemm"), {"x": (-9, 9)}, granularity=granularity
    )
    assert exported.factors_of("l").precision == "int8"
    y = run(exported.qdq, {"x": RNG.normal(size=(4, 3)).astype(np.float32)})["y"]
    assert np.allclose(y, 0 if b is None else b, rtol=1e-6)


def test_a_dead_channel_with_a_large_bias_stays_inside_int32():
    w = weight() * np.float32(1e-4)
    w[:, 0] = 0
    scales = layer_weight_scales(w, np.array([1e6, 0, 0, 0, 0], np.float32), 1e-3, "per-channel")
    assert 1e6 / (1e-3 * float(scales[0])) <= 2**31 - 1
    assert np.array_equal(scales[1:], np.abs(w[:, 1:]).max(axis=0) / np.float32(127))


def test_the_int8_fraction_counts_macs():
    model = shared_input([[1.0] * 3, [1e12]])
    exported = export(model, {"x": (-1.0, 1.0)})
    record: ModelRecord = exported.record
    assert [layer.macs for layer in record.layers] == [72 // 4, 24 // 4]  # of one sample of four
    assert int8_mac_fraction(record, exported.factors) == 0.75
    assert make_plan(record).groups.keys() == {record.groups[0].name}


def test_granularity_may_differ_from_layer_to_layer():
    # C24
    model = shared_input([[1.0] * 4, [2.0] * 4])
    record = describe_model(model, {}, mask=None, notes=[])
    granularity = {"l0": "per-channel", "l1": "per-tensor"}
    factors = layer_factors(model, record, make_ranges({"x": (0, 1)}), make_plan(record),
                            granularity)  # fmt: skip
    assert [len(entry.scale_w) for entry in factors] == [4, 1]


def product_of_two():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["q"], name="layer"),
        helper.make_node("MatMul", ["q", "k"], ["y"], name="pair"),
    ]
    return onnx_model(nodes, {"x": [3, 6], "k": [5, 3]}, ["y"], {"w": weight()})


def pair_factors(**bounds):
    """What becomes of ``q @ k`` when these ranges, (low, high, symmetric), are known."""
    model = product_of_two()
    record = describe_model(model, {}, mask=None, notes=[], optional=("MatMul",))
    ranges = RangesRecord(
        ranges=tuple(
            TensorRange(tensor=t, low=low, high=high, estimator="minmax", symmetric=symmetric)
            for t, (low, high, symmetric) in ({"x": (-1, 1, False)} | bounds).items()
        ),
        nonfinite=(),
    )
    return layer_factors(model, record, ranges, make_plan(record), "per-channel")[1]


def test_a_product_of_two_activations_is_int8_when_both_are_symmetric():
    entry = pair_factors(q=(-2.0, 1.0, True), k=(-1.0, 5.0, True))
    assert entry.precision == "int8" and entry.offset_d == 0
    assert entry.scale_d == pytest.approx(2 / 127)
    assert entry.scale_w == (pytest.approx(5 / 127),)


@pytest.mark.parametrize("tensor", ["q", "k"])
def test_a_product_of_two_activations_with_a_zero_point_stays_fp16(tensor):
    bounds = {"q": (-2.0, 1.0, True), "k": (-1.0, 5.0, True)}
    entry = pair_factors(**bounds | {tensor: (*bounds[tensor][:2], False)})
    assert entry.precision == "fp16" and "symmetric" in entry.reason and tensor in entry.reason
    entry = pair_factors(**{name: at for name, at in bounds.items() if name != tensor})
    assert entry.precision == "fp16" and "range" in entry.reason and tensor in entry.reason


def test_a_narrow_channel_takes_a_wider_scale_before_its_bias_leaves_int32():
    w = weight()
    w[:, 1] *= 1e-9
    b = np.array([0.1, 0.5, 0.1, 0.1, 0.1], np.float32)
    scales = layer_weight_scales(w, b, 0.01, "per-channel")
    plain = np.abs(w).max(axis=0) / np.float32(127)
    assert np.array_equal(np.delete(scales, 1), np.delete(plain, 1))
    assert plain[1] < scales[1] <= plain.max()
    assert 2**29 < 0.5 / (0.01 * float(scales[1])) < 2**30 + 1
