"""Convolutions in the deploy file, its twin and its lowered form; cases from public reports."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from quantflow.export.amct_record import read_record, write_record
from quantflow.export.lowered.convolution import EXACT, exact_parts
from quantflow.export.lowering import lower
from quantflow.export.parity import parity
from quantflow.graph.canonical import canonicalize
from quantflow.graph.edit import with_outputs
from quantflow.target.lint import lint
from tests.export.builders import array_of, export, node_of, onnx_model, reload, run
from tests.export.dialect_numpy import interpret

RNG = np.random.default_rng(11)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def convolution(weight, bias=None, op_type="Conv", size=7, **attributes):
    """One layer called l on (2, C, 7, 7)."""
    groups = attributes.get("group", 1)
    channels = len(weight) if op_type == "ConvTranspose" else weight.shape[1] * groups
    inputs = ["x", "w"] + (["b"] if bias is not None else [])
    node = helper.make_node(op_type, inputs, ["y"], name="l", **attributes)
    constants = {"w": weight} | ({"b": bias} if bias is not None else {})
    return onnx_model([node], {"x": [2, channels, size, size]}, ["y"], constants)


def lowered_of(exported):
    return lower(reload(exported.deploy), fp19=False, emulate_fp16=False, islands=frozenset())


def signal_to_noise(expected, got):
    noise = np.square(expected.astype(np.float64) - got).sum()
    return 10 * np.log10(np.square(expected.astype(np.float64)).sum() / noise)


# --- what is written ---------------------------------------------------------------------------


@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
def test_a_convolution_keeps_its_attributes_and_holds_an_int32_bias(op_type):
    w, b = normal(4, 4, 3, 3), normal(4)
    exported = export(convolution(w, b, op_type, pads=[1, 0, 2, 1], strides=[2, 1]), {"x": (-1, 3)})
    nodes = list(exported.deploy.graph)
    assert [node.op_type for node in nodes] == ["AscendQuant", op_type, "AscendDequant"]
    node, entry = nodes[1], exported.factors_of("l")
    assert node.attributes["pads"].value == (1, 0, 2, 1)
    axis = 0 if op_type == "Conv" else 1
    absmax = np.abs(w).max(axis=tuple(i for i in range(4) if i != axis))
    assert np.allclose(entry.scale_w, absmax / 127, rtol=1e-6)
    bias = array_of(exported.deploy, node.inputs[2])
    assert bias.dtype == np.int32
    assert np.array_equal(bias, np.rint(b / (entry.scale_d * np.array(entry.scale_w))))
    assert array_of(exported.deploy, node.inputs[1]).dtype == np.int8
    assert array_of(exported.deploy, nodes[2].inputs[1]).shape == (4,)
    assert lint(reload(exported.deploy), "2026") == []


def test_a_convolution_has_a_scale_a_channel_whatever_is_asked_for():
    exported = export(convolution(normal(5, 2, 3, 3)), {"x": (-1, 1)}, granularity="per-tensor")
    assert len(exported.factors_of("l").scale_w) == 5


def test_the_amct_record_repeats_the_scale_of_every_channel():
    exported = export(
        convolution(normal(4, 3, 2, 2), None, "ConvTranspose", group=2), {"x": (-1, 1)}
    )
    (entry,) = read_record(write_record(exported.record, exported.factors)).values()
    assert entry.scale_w == exported.factors_of("l").scale_w and len(entry.scale_w) == 6
    assert entry.offset_w == (0,) * 6


@pytest.mark.parametrize("group", [1, 2, 4])
def test_the_twin_of_a_transposed_convolution_dequantizes_along_its_output_channels(group):
    w = normal(4, 3, 2, 2) * np.float32([1, 10, 100])[:, None, None]
    exported = export(
        convolution(w, normal(3 * group), "ConvTranspose", group=group), {"x": (-3, 3)}
    )
    onnx.checker.check_model(ir.to_proto(exported.qdq), full_check=True)
    x = {"x": normal(2, 4, 7, 7).clip(-3, 3)}
    weight = node_of(exported.qdq, "ConvTranspose").inputs[1].name
    dequantized = run(with_outputs(exported.qdq, [weight]), x, optimize=False)[weight]
    # Channel n of group g: rows of the group, column n.
    steps = np.array(exported.factors_of("l").scale_w).reshape(group, 3)
    half = np.repeat(steps, 4 // group, axis=0)[:, :, None, None] / 2
    assert (np.abs(dequantized - w) <= half * 1.0001).all()
    values = interpret(reload(exported.deploy), x)
    assert np.allclose(run(exported.qdq, x)["y"], values["y"], rtol=1e-4, atol=1e-4)


# --- exact sums --------------------------------------------------------------------------------


@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
def test_a_sum_beyond_2_to_the_24_is_cut_in_parts_and_exact(op_type):
    # 600 * 9 products of up to 255 * 127: 175 million, ten times what float32 counts to.
    shape = (2, 600, 3, 3) if op_type == "Conv" else (600, 2, 3, 3)
    w = np.full(shape, 0.5, np.float32) + normal(*shape) * np.float32(0.001)
    exported = export(convolution(w, normal(2), op_type, pads=[1] * 4), {"x": (0.0, 1.0)})
    assert exported.factors_of("l").precision == "int8"
    x = {"x": np.full((2, 600, 7, 7), 1.0, np.float32)}
    x["x"][1] = RNG.uniform(0, 1, (600, 7, 7))
    model = lowered_of(exported)
    assert sum(node.op_type == op_type for node in model.graph) > 5
    accumulator = node_of(exported.deploy, "AscendDequant").inputs[0].name
    got = run(with_outputs(model, [accumulator], keep=True), x)
    expected = interpret(reload(exported.deploy), x)
    assert np.abs(expected[accumulator]).max() > 2**27
    assert np.array_equal(got[accumulator], expected[accumulator])
    assert np.array_equal(got["y"], expected["y"])
    assert np.array_equal(run(model, x)["y"], expected["y"])


@settings(max_examples=30)
@given(
    groups=st.integers(1, 3),
    inner=st.integers(1, 90),
    op_type=st.sampled_from(["Conv", "ConvTranspose"]),
    farthest=st.sampled_from([128, 255]),
    seed=st.integers(0, 999),
)
def test_the_parts_add_up_and_none_is_too_long(groups, inner, op_type, farthest, seed):
    rng = np.random.default_rng(seed)
    shape = (2 * groups, inner, 5, 5) if op_type == "Conv" else (inner * groups, 2, 5, 5)
    weight = (rng.choice([-127, 127, 3], shape)).astype(np.int8)
    parts = list(exact_parts(weight, op_type, groups, farthest))
    assert np.array_equal(sum(part.astype(int) for part in parts), weight)
    for part in parts:
        reach = np.abs(part.astype(np.int64))
        if op_type == "Conv":
            sums = reach.sum(axis=(1, 2, 3))
        else:
            sums = reach.reshape(groups, inner, 2, 25).sum(axis=(1, 3))
        assert sums.max() * farthest <= EXACT


def test_what_onnxruntimes_own_integer_convolution_gives_is_the_same():
    w = normal(6, 2, 3, 3)
    attributes = {"group": 2, "pads": [2, 0, 1, 1], "dilations": [2, 1], "strides": [1, 2]}
    exported = export(convolution(w, None, **attributes), {"x": (-1.0, 2.0)})
    deploy = reload(exported.deploy)
    x = RNG.uniform(-1, 2, (2, 4, 7, 7)).astype(np.float32)
    values = interpret(deploy, {"x": x})
    quant, conv = node_of(deploy, "AscendQuant"), node_of(deploy, "Conv")
    offset = np.int8(quant.attributes["offset"].value)
    # ConvInteger pads with the zero point, as Ascend does.
    node = helper.make_node("ConvInteger", ["q", "w", "z"], ["y"], **attributes)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("q", onnx.TensorProto.INT8, x.shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.INT32, None)],
        [onnx.numpy_helper.from_array(array_of(deploy, conv.inputs[1]), "w"),
         onnx.numpy_helper.from_array(np.array(offset), "z")],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    quantized = values[quant.outputs[0].name].astype(np.int8)
    integers = run(ir.from_proto(proto), {"q": quantized})["y"]
    assert np.array_equal(integers, values[conv.outputs[0].name])


# --- reports -----------------------------------------------------------------------------------


@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("group", [1, 2])
def test_a_channel_of_large_weights_costs_the_others_nothing(op_type, group):
    # C16, for convolutions: the scale lies on the right axis.
    shape = (6, 4 // group, 3, 3) if op_type == "Conv" else (4, 6 // group, 3, 3)
    plain, large = normal(*shape), None
    large = plain.copy()
    if op_type == "Conv":
        large[0] *= 100
    else:
        large[: 4 // group, 0] *= 100
    x = RNG.uniform(-2, 2, (2, 4, 7, 7)).astype(np.float32)
    outputs = []
    for weight in (plain, large):
        exported = export(convolution(weight, None, op_type, group=group), {"x": (-2, 2)})
        outputs.append((run(exported.model, {"x": x})["y"], run(exported.qdq, {"x": x})["y"]))
    # Channel 0 is 100 times as large and as wrong; the others are what they were.
    for before, after in zip(*outputs, strict=True):
        assert np.allclose(after[:, 1:], before[:, 1:], rtol=1e-5, atol=1e-5)
        assert np.allclose(after[:, 0], before[:, 0] * 100, rtol=1e-4, atol=1e-2)


def test_a_shared_bias_and_a_tensor_called_like_ours_collide_with_nothing():
    # C18
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["h"], name="a", pads=[1] * 4),
        helper.make_node("Conv", ["h", "w1", "b0"], ["i"], name="b0", pads=[1] * 4),
        helper.make_node("Mul", ["i", "a/bias_int32"], ["y"], name="m"),
    ]
    constants = {"w0": normal(4, 3, 3, 3), "w1": normal(4, 4, 3, 3), "b0": normal(4),
                 "a/bias_int32": np.float32([2.0])}  # fmt: skip
    model = onnx_model(nodes, {"x": [1, 3, 6, 6]}, ["y"], constants)
    exported = export(model, {"x": (-3, 3), "h": (-20, 20)})
    assert [entry.precision for entry in exported.factors] == ["int8", "int8"]
    for name in ("a", "b0"):
        entry = exported.factors_of(name)
        node = next(node for node in exported.deploy.graph if node.name == name)
        steps = constants["b0"].astype(np.float64) / (entry.scale_d * np.array(entry.scale_w))
        assert np.array_equal(array_of(exported.deploy, node.inputs[2]), np.rint(steps))
    names = [v.name for n in exported.deploy.graph for v in n.outputs]
    names += list(exported.deploy.graph.initializers)
    assert len(set(names)) == len(names)
    x = {"x": normal(1, 3, 6, 6).clip(-3, 3)}
    assert signal_to_noise(run(model, x)["y"], run(lowered_of(exported), x)["y"]) > 25
    onnx.checker.check_model(ir.to_proto(exported.qdq), full_check=True)


def test_a_kernel_shared_with_an_fp16_layer_stays_float_for_it():
    # C19
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"], name="int8_layer", pads=[1] * 4),
        helper.make_node("Conv", ["h", "w"], ["y"], name="fp16_layer", pads=[1] * 4),
    ]
    model = onnx_model(nodes, {"x": [1, 4, 6, 6]}, ["h", "y"], {"w": normal(4, 4, 3, 3)})
    exported = export(model, {"x": (-3, 3), "h": (-9, 9)}, fp16=["fp16_layer"])
    nodes = {node.name: node for node in exported.deploy.graph}
    assert nodes["fp16_layer"].inputs[1].name == "w"
    assert np.array_equal(array_of(exported.deploy, "w"), array_of(model, "w"))
    x = {"x": normal(1, 4, 6, 6).clip(-3, 3)}
    got = run(with_outputs(lowered_of(exported), ["h"], keep=True), x)
    # What the float layer gives is what the float kernel makes of its input.
    alone = onnx_model([helper.make_node("Conv", ["h", "w"], ["y"], pads=[1] * 4)],
                       {"h": [1, 4, 6, 6]}, ["y"], {"w": array_of(model, "w")})  # fmt: skip
    assert np.allclose(got["y"], run(alone, {"h": got["h"]})["y"], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("op_type", ["Relu", "Clip"])
def test_an_activation_after_a_quantized_layer_reads_its_float_output(op_type, symmetric):
    # C20
    bounds = ["zero", "six"] if op_type == "Clip" else []
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["h"], name="l", pads=[1] * 4),
        helper.make_node(op_type, ["h", *bounds], ["r"], name="act"),
        helper.make_node("Conv", ["r", "w1"], ["y"], name="l1"),
    ]
    constants = {"w": normal(4, 3, 3, 3), "b": normal(4), "w1": normal(5, 4, 3, 3),
                 "zero": np.float32(0), "six": np.float32(6)}  # fmt: skip
    model = onnx_model(nodes, {"x": [2, 3, 8, 8]}, ["y"], constants)
    x = {"x": normal(2, 3, 8, 8)}
    high = float(run(with_outputs(model, ["r"]), x)["r"].max())
    ranges = {"x": (float(x["x"].min()), float(x["x"].max())), "r": (0.0, high)}
    exported = export(model, ranges, symmetric=symmetric)
    act = next(node for node in exported.deploy.graph if node.name == "act")
    assert act.inputs[0].producer().op_type == "AscendDequant"
    quant = [n for n in exported.deploy.graph if n.op_type == "AscendQuant"][1]
    # One-sided: all levels on their side when asymmetric.
    assert quant.attributes["offset"].value == (0.0 if symmetric else -128.0)
    levels = 127 if symmetric else 255
    assert quant.attributes["scale"].value == pytest.approx(levels / high, rel=1e-5)
    expected = run(model, x)["y"]
    for form in (exported.qdq, lowered_of(exported)):
        assert signal_to_noise(expected, run(form, x)["y"]) > 30
    report = parity(model, exported.deploy, exported.qdq, exported.record, exported.factors, [x])
    assert report.verdict == "pass" and all(row.int32_exact for row in report.layers)


def test_batch_normalization_is_folded_and_its_activation_stays_float():
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1] * 4, group=4),
        helper.make_node("BatchNormalization", ["c", "g", "o", "m", "v"], ["n"], name="bn"),
        helper.make_node("HardSwish", ["n"], ["y"], name="act"),
    ]
    constants = {"w": normal(4, 1, 3, 3), "g": normal(4), "o": normal(4), "m": normal(4),
                 "v": RNG.uniform(0.1, 2, 4).astype(np.float32)}  # fmt: skip
    original = onnx_model(nodes, {"x": [2, 4, 8, 8]}, ["y"], constants)
    model = reload(original)
    canonicalize(model, "2026")
    assert "BatchNormalization" not in {node.op_type for node in model.graph}
    exported = export(model, {"x": (-4, 4)})
    assert exported.factors_of("conv").precision == "int8"
    x = {"x": normal(2, 4, 8, 8).clip(-4, 4)}
    assert signal_to_noise(run(original, x)["y"], run(lowered_of(exported), x)["y"]) > 35


@pytest.mark.parametrize("tiny", [0.0, 1e-41, 1e-30, 1e-12, 1e-9, 1e-4])
def test_per_channel_is_never_worse_than_per_tensor_on_channels_of_nearly_no_scale(tiny):
    # C25, with 32 channels of every scale, as folding a BatchNorm leaves them.
    scales = np.float32([1.0, tiny, 0.5, tiny, 2.0, 1e-3])
    w = normal(32, 6, 1, 3, 3) * scales[:, None, None, None]
    w, b = w.reshape(-1, 1, 3, 3), normal(32 * 6)
    exported = export(convolution(w, b, group=len(w), pads=[1] * 4), {"x": (-3, 3)})
    entry = exported.factors_of("l")
    assert entry.precision == "int8"
    # Inputs that int8 holds exactly: what errs are weights and biases.
    steps = RNG.integers(-128, 128, (2, len(w), 7, 7)) - entry.offset_d
    x = (steps * entry.scale_d).astype(np.float32)
    expected = run(exported.model, {"x": x})["y"].astype(np.float64)
    per_channel = run(lowered_of(exported), {"x": x})["y"] - expected
    # One scale for the whole weight, by the definition.
    step = np.abs(w).max() / 127
    rounded = (np.rint(w / step) * step).astype(np.float32)
    bias = (np.rint(b / (entry.scale_d * step)) * entry.scale_d * step).astype(np.float32)
    one = convolution(rounded, bias, group=len(w), pads=[1] * 4)
    per_tensor = run(one, {"x": x})["y"] - expected
    squares = [np.square(e.reshape(2, 32, 6, -1)).sum(axis=(0, 1, 3)) for e in
               (per_channel, per_tensor)]  # fmt: skip
    assert (squares[0] <= squares[1]).all()


# --- edge numbers ------------------------------------------------------------------------------


def worst(weight, bias, bounds, x=None, **options):
    """Entry of a one-layer model, and its largest error relative to the largest output."""
    exported = export(convolution(weight, bias, pads=[1] * 4), {"x": bounds}, **options)
    if x is None:
        x = RNG.uniform(*bounds, (2, weight.shape[1], 7, 7))
    x = {"x": np.asarray(x, np.float32)}
    expected = run(exported.model, x)["y"].astype(np.float64)
    assert lint(reload(exported.deploy), "2026") == []
    errors = [np.abs(run(form, x)["y"] - expected).max() for form in
              (exported.qdq, lowered_of(exported))]  # fmt: skip
    return exported.factors_of("l"), max(errors) / np.abs(expected).max()


@pytest.mark.parametrize("tiny", [0.0, 1e-41, 1e-12])
def test_a_channel_of_nothing_with_a_bias_leaves_the_layer_int8(tiny):
    w = normal(5, 3, 3, 3)
    w[2] = tiny
    entry, error = worst(w, np.float32([0.1, 1, 0.7, 0, -3]), (-2.0, 2.0))
    assert entry.precision == "int8" and error < 0.03


def test_weights_so_small_that_the_bias_leaves_int32_stay_fp16_with_that_reason():
    entry, error = worst(normal(4, 3, 3, 3) * np.float32(1e-9), np.full(4, 5, np.float32), (-2, 2))
    assert entry.precision == "fp16" and "bias leaves int32" in entry.reason and error < 1e-6


def test_a_bias_beyond_int32_stays_fp16_with_that_reason():
    entry, _ = worst(normal(4, 3, 3, 3), np.float32([1, 1e12, 1, 1]), (-1, 1))
    assert entry.precision == "fp16" and "bias leaves int32" in entry.reason


@pytest.mark.parametrize("value", [3.0, -0.7, 0.0, 1e-3])
def test_a_constant_activation_is_exact_to_the_rounding_of_the_weights(value):
    x = np.full((2, 3, 7, 7), value, np.float32)
    entry, error = worst(normal(4, 3, 3, 3), normal(4), (value, value), x)
    assert entry.precision == "int8" and error < 0.02


@pytest.mark.parametrize("bounds", [(0.0, 5.0), (-5.0, 0.0), (2.0, 5.0), (-0.1, 6.0)])
@pytest.mark.parametrize("symmetric", [True, False])
def test_one_sided_activations_pad_with_zero(bounds, symmetric):
    entry, error = worst(normal(4, 3, 3, 3), normal(4), bounds, symmetric=symmetric)
    assert entry.precision == "int8" and error < 0.03


@pytest.mark.parametrize("absmax", [65504.0, 1e6, 1e8])
def test_activations_beyond_fp16_are_int8_with_float32_on_either_side(absmax):
    entry, error = worst(normal(4, 3, 3, 3), None, (-absmax, absmax))
    assert entry.precision == "int8" and error < 0.03


@pytest.mark.parametrize("absmax", [1e10, 1e-6, 1e-40])
def test_activations_whose_scale_the_dialect_cannot_write_stay_fp16(absmax):
    entry, _ = worst(normal(4, 3, 3, 3), None, (0.0, absmax))
    assert entry.precision == "fp16" and "2^-23" in entry.reason


def test_denormal_weights_are_no_weights():
    w = normal(4, 3, 3, 3)
    w[:, 1] = 1e-41
    entry, error = worst(w, normal(4), (-2, 2))
    assert entry.precision == "int8" and error < 0.03


@pytest.mark.parametrize("islands", [frozenset(), frozenset({"l"})])
def test_fp16_around_a_convolution_rounds_its_input_and_its_output(islands):
    exported = export(convolution(normal(4, 3, 3, 3), normal(4), pads=[1] * 4), {"x": (-3, 3)})
    deploy = reload(exported.deploy)
    x = normal(2, 3, 7, 7)
    rounded = x.astype(np.float16).astype(np.float32)
    y = interpret(deploy, {"x": x if islands else rounded}, fp19=True)["y"]
    expected = y if islands else y.astype(np.float16).astype(np.float32)
    model = lower(deploy, fp19=True, emulate_fp16=True, islands=islands)
    assert np.array_equal(run(model, {"x": x})["y"], expected)


# --- parity ------------------------------------------------------------------------------------


@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
def test_one_changed_weight_or_bias_step_is_an_inexact_accumulator(op_type):
    width = 8 if op_type == "ConvTranspose" else 4
    w = normal(4, width // 2 if op_type == "ConvTranspose" else 2, 3, 3)
    model = convolution(w, normal(width), op_type, group=2, pads=[1] * 4)
    x = {"x": normal(2, 4, 7, 7).clip(-3, 3)}
    for index, place in ((1, 5), (2, 2)):
        exported = export(model, {"x": (-3, 3)})
        value = node_of(exported.deploy, op_type).inputs[index]
        changed = array_of(exported.deploy, value).copy()
        changed.flat[place] += 1 if changed.flat[place] < 9 else -1
        value.const_value = ir.tensor(changed, name=value.name)
        files = (model, exported.deploy, exported.qdq)
        result = parity(*files, exported.record, exported.factors, [x])
        assert result.verdict == "fail" and not result.layers[0].int32_exact
