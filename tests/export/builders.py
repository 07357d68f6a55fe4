"""Small models for the export tests, and Ascend's semantics written out in numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper, numpy_helper

from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PlannedGroup, PrecisionPlan
from quantflow.artifacts.ranges_record import Island, RangesRecord, TensorRange
from quantflow.export.deploy import deploy_model
from quantflow.export.factors import layer_factors
from quantflow.export.qdq import qdq_model
from quantflow.graph.layers import describe_model
from quantflow.graph.model_io import model_bytes
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner


def onnx_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int]],
    outputs: Sequence[str],
    constants: Mapping[str, np.ndarray],
    opset: int = 17,
) -> ir.Model:
    """A float32 model with inferred shapes."""
    graph = helper.make_graph(
        list(nodes),
        "main",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto))


def linear(
    weight: np.ndarray,
    bias: np.ndarray | None,
    kind: str,
    rows: int = 4,
    names: str = "l",
) -> ir.Model:
    """``y = x @ weight + bias`` as a MatMul or a Gemm called `names`."""
    constants = {"w": weight} | ({"b": bias} if bias is not None else {})
    if kind == "Gemm":
        inputs = ["x", "w", "b"] if bias is not None else ["x", "w"]
        nodes = [helper.make_node("Gemm", inputs, ["y"], name=names)]
    elif bias is None:
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name=names)]
    else:
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["p"], name=names),
            helper.make_node("Add", ["p", "b"], ["y"], name=f"{names}_bias"),
        ]
    return onnx_model(nodes, {"x": [rows, weight.shape[0]]}, ["y"], constants)


@dataclass(frozen=True)
class Exported:
    """A float model and everything that export makes of it."""

    model: ir.Model
    record: ModelRecord
    factors: tuple[LayerFactors, ...]
    deploy: ir.Model
    qdq: ir.Model

    def factors_of(self, layer: str) -> LayerFactors:
        return next(entry for entry in self.factors if entry.layer == layer)


def make_plan(
    record: ModelRecord, fp16: Sequence[str] = (), islands: Sequence[str] = ()
) -> PrecisionPlan:
    """Everything INT8 but the named groups."""
    return PrecisionPlan(
        policy="none",
        groups={
            g.name: PlannedGroup(precision="fp16" if g.name in fp16 else "int8")
            for g in record.groups
        },
        islands=tuple(Island(node=n, op_type="", tensor="", absmax=1e5) for n in islands),
    )


def make_ranges(bounds: Mapping[str, tuple[float, float]], symmetric: bool = False) -> RangesRecord:
    return RangesRecord(
        ranges=tuple(
            TensorRange(tensor=t, low=low, high=high, estimator="minmax", symmetric=symmetric)
            for t, (low, high) in bounds.items()
        ),
        nonfinite=(),
    )


def export(
    model: ir.Model,
    bounds: Mapping[str, tuple[float, float]],
    *,
    fp16: Sequence[str] = (),
    islands: Sequence[str] = (),
    granularity: str = "per-channel",
    symmetric: bool = False,
) -> Exported:
    record = describe_model(model, {}, mask=None, notes=[])
    plan = make_plan(record, fp16, islands)
    factors = layer_factors(model, record, make_ranges(bounds, symmetric), plan, granularity)
    return Exported(
        model=model,
        record=record,
        factors=factors,
        deploy=deploy_model(model, record, factors),
        qdq=qdq_model(model, record, factors),
    )


def reload(model: ir.Model) -> ir.Model:
    """The model as it is read back from its file."""
    return ir.from_proto(onnx.ModelProto.FromString(model_bytes(model)))


def run(
    model: ir.Model, feeds: Mapping[str, np.ndarray], *, optimize: bool = True
) -> dict[str, np.ndarray]:
    return OnnxRuntimeRunner(model_bytes(model), optimize=optimize).run(feeds)


def node_of(model: ir.Model, op_type: str) -> ir.Node:
    return next(node for node in model.graph if node.op_type == op_type)


def array_of(model: ir.Model, value: ir.Value | str | None) -> np.ndarray:
    name = value.name if isinstance(value, ir.Value) else value
    return model.graph.initializers[str(name)].const_value.numpy()


def ascend_quant(x: np.ndarray, scale: float, offset: float) -> np.ndarray:
    """``clip(rint(x * scale) + offset, -128, 127)``, ties to even."""
    with np.errstate(over="ignore"):
        scaled = x.astype(np.float32) * np.float32(scale)
    steps = np.rint(scaled).astype(np.float64) + offset
    return np.clip(steps, -128, 127).astype(np.int64)


def ascend_dequant(accumulator: np.ndarray, packed: np.ndarray, *, fp19: bool) -> np.ndarray:
    """Multiply by the float32 in the low 32 bits, of which FP19 keeps all but 13 mantissa bits."""
    bits = (packed & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    if fp19:
        bits = bits >> np.uint32(13) << np.uint32(13)
    return accumulator.astype(np.float32) * bits.view(np.float32)


def run_deployed_linear(deploy: ir.Model, x: np.ndarray, *, fp19: bool) -> np.ndarray:
    """The one layer of a deploy file, in integers, from the file's own attributes and tensors."""
    quant, dequant = node_of(deploy, "AscendQuant"), node_of(deploy, "AscendDequant")
    gemm = next((node for node in deploy.graph if node.op_type == "Gemm"), None)
    product = gemm or node_of(deploy, "MatMul")
    add = next((node for node in deploy.graph if node.op_type == "Add"), None)
    scale, offset = (quant.attributes[name].value for name in ("scale", "offset"))
    q = ascend_quant(x, scale, offset)
    accumulator = (q - int(offset)) @ array_of(deploy, product.inputs[1]).astype(np.int64)
    bias = add.inputs[1] if add is not None else (*product.inputs, None)[2]
    if bias is not None:
        accumulator = accumulator + array_of(deploy, bias).astype(np.int64)
    assert np.abs(accumulator).max() < 2**31
    return ascend_dequant(accumulator, array_of(deploy, dequant.inputs[1]), fp19=fp19)
