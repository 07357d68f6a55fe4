"""Files that onnxruntime quantized: scales as in the file, and the deploy model computes alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.plan import PlannedGroup, PrecisionPlan
from quantflow.artifacts.ranges_record import RangesRecord
from quantflow.export.deploy import deploy_model
from quantflow.export.factors import layer_factors
from quantflow.export.lowering import lower
from quantflow.graph.bucket import bucket_model
from quantflow.graph.quantized.settle import given_params
from quantflow.ranges.given import given_ranges
from tests.graph.models import build, ops, run

from .qdq_models import (
    INT8,
    QOPERATOR,
    SCHEMES,
    Read,
    Scheme,
    initializers,
    integers,
    normal,
    quantized,
    read,
    scalar,
    write_cnn,
    write_mlp,
)

Writer = Callable[[Path], Path]
MODELS = {"mlp": (write_mlp, (4, 16)), "cnn": (write_cnn, (4, 3, 8, 8))}


def exported(found: Read) -> tuple[tuple[LayerFactors, ...], ir.Model]:
    """Factors and the lowered deploy model, floats not rounded."""
    static = bucket_model(found.model, {"batch": 4} if found.record.inputs[0].shape[0] != 4 else {})
    ranges = RangesRecord(ranges=tuple(given_ranges(given_params(found.record))), nonfinite=())
    groups = {group.name: PlannedGroup(precision="int8") for group in found.record.groups}
    plan = PrecisionPlan(policy="none", groups=groups)
    factors = layer_factors(static, found.record, ranges, plan, "per-tensor")
    deploy = deploy_model(static, found.record, factors)
    return factors, lower(deploy, fp19=False, emulate_fp16=False, islands=frozenset())


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    x, y = a.ravel().astype(np.float64), b.ravel().astype(np.float64)
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def scales_in_file(path: Path, layer: str) -> tuple[float, int, np.ndarray]:
    """Scale, zero point and weight scales of a layer, looked up by the wires of the file."""
    model, arrays = onnx.load(path), initializers(path)
    makers = {output: node for node in model.graph.node for output in node.output}
    node = next(node for node in model.graph.node if node.name == layer)
    dequantize = makers[node.input[0]]
    while dequantize.op_type != "DequantizeLinear":
        dequantize = makers[dequantize.input[0]]
    _, scale, zero = dequantize.input
    return float(arrays[scale]), int(arrays[zero]), arrays[makers[node.input[1]].input[1]]


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_the_deploy_model_has_the_files_scales_exactly(
    tmp_path: Path, name: str, scheme: Scheme
) -> None:
    write, shape = MODELS[name]
    path = quantized(write(tmp_path), scheme, shape)
    found = read(onnx.load(path), {"batch": 4})
    factors, _ = exported(found)
    assert all(entry.precision == "int8" for entry in factors)
    unsigned = "U" in scheme.activation.name
    for entry in factors:
        scale, zero, weight = scales_in_file(path, entry.layer)
        assert entry.scale_d == scale
        assert entry.offset_d == (zero - 128 if unsigned else zero)
        spread = np.broadcast_to(np.atleast_1d(weight), len(entry.scale_w))
        np.testing.assert_array_equal(np.float32(entry.scale_w), spread)


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_the_float_model_is_the_one_that_was_quantized(
    tmp_path: Path, name: str, scheme: Scheme
) -> None:
    write, shape = MODELS[name]
    source = write(tmp_path)
    found = read(onnx.load(quantized(source, scheme, shape)), {"batch": 4})
    x = normal(*shape, seed=77)
    assert cosine(run(found.model, {"x": x})["y"], run(onnx.load(source), {"x": x})["y"]) > 0.9995
    if name == "cnn" and not scheme.symmetric:
        # onnxruntime has removed Relu and Clip(0, 6).
        assert {"Relu", "Clip"} <= set(ops(found.model))
        original = {node.op_type for node in onnx.load(quantized(source, scheme, shape)).graph.node}
        assert not {"Relu", "Clip"} & original


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_the_deploy_model_is_at_least_as_close_to_float_as_the_file(
    tmp_path: Path, name: str, scheme: Scheme
) -> None:
    # The file quantizes outputs and additions as well, which Ascend computes in fp16.
    write, shape = MODELS[name]
    path = quantized(write(tmp_path), scheme, shape)
    found = read(onnx.load(path), {"batch": 4})
    x = normal(*shape, seed=78)
    exact = run(found.model, {"x": x})["y"]
    file = run(onnx.load(path), {"x": x})["y"]
    deploy = run(exported(found)[1], {"x": x})["y"]
    assert cosine(deploy, file) > 0.997
    assert cosine(deploy, exact) > cosine(file, exact) - 1e-4


@pytest.mark.parametrize("name", MODELS)
def test_operators_in_integers_are_read_as_the_qdq_they_stand_for(
    tmp_path: Path, name: str
) -> None:
    write, shape = MODELS[name]
    source = write(tmp_path)
    a = read(onnx.load(quantized(source, SCHEMES[0], shape)), {"batch": 4})
    b = read(onnx.load(quantized(source, QOPERATOR, shape)), {"batch": 4})
    assert ops(a.model) == ops(b.model)
    for x, y in zip(a.record.given, b.record.given, strict=True):
        assert (x.scale_d, x.offset_d, x.scale_w) == (y.scale_d, y.offset_d, y.scale_w)


# --- quantization at the inputs of layers and nowhere else, as training leaves it ----------------


def trained(kind: type, zero: int) -> onnx.ModelProto:
    """Two layers whose inputs and weights alone are quantized."""
    text = (
        "(float[4,16] x) => (float[4,6] y) { a = QuantizeLinear(x, s0, z) "
        "b = DequantizeLinear(a, s0, z) v0 = DequantizeLinear<axis=1>(w0, t0) "
        "u = DequantizeLinear<axis=0>(b0, p0) h = Gemm(b, v0, u) g = Tanh(h) "
        "c = QuantizeLinear(g, s1, z) d = DequantizeLinear(c, s1, z) "
        "v1 = DequantizeLinear(w1, t1) y = MatMul(d, v1) }"
    )
    t0 = np.float32(np.abs(normal(24, seed=5)) * 0.01 + 1e-3)
    s0 = scalar(0.025)
    arrays = {
        "s0": s0, "s1": scalar(0.0078), "z": scalar(zero, kind), "t0": t0, "t1": scalar(0.006),
        "w0": integers(16, 24).astype(INT8), "w1": integers(24, 6, seed=1).astype(INT8),
        "b0": integers(24, seed=2, low=-9000, high=9000).astype(np.int32), "p0": s0 * t0,
    }  # fmt: skip
    return build(text, arrays)


@pytest.mark.parametrize(("kind", "zero"), [(np.int8, 0), (np.uint8, 128), (np.uint8, 117)])
def test_the_deploy_model_computes_what_the_file_computes(kind: type, zero: int) -> None:
    model = trained(kind, zero)
    x = normal(4, 16, seed=9)
    expected = run(model, {"x": x})["y"]
    found = run(exported(read(model))[1], {"x": x})["y"]
    assert cosine(expected, found) > 0.9999
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def test_the_int8_inputs_of_both_are_equal() -> None:
    model = trained(np.uint8, 117)
    x = normal(4, 16, seed=10)
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info("c"))
    lowered = exported(read(model_without(model, "c")))[1]
    casts = [x for x in lowered.graph if x.op_type == "Cast" and "Quant" in str(x.name)]
    quantized_values = [x.outputs[0] for x in casts if x.outputs[0].dtype == ir.DataType.UINT8]
    lowered.graph.outputs.extend(quantized_values)
    found = run(lowered, {"x": x})
    file = run(model, {"x": x})["c"]
    deploy = found[str(quantized_values[-1].name)]
    assert deploy.shape == file.shape
    assert (deploy == file).mean() > 0.999


def model_without(model: onnx.ModelProto, output: str) -> onnx.ModelProto:
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    for value in [x for x in copy.graph.output if x.name == output]:
        copy.graph.output.remove(value)
    return copy
