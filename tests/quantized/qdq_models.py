"""QDQ models written by hand or by onnxruntime, and what a float model with them should be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (  # noqa: TID251
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)

from quantflow.artifacts.given_record import GivenLayer
from quantflow.artifacts.model_record import Layer, ModelRecord
from quantflow.graph.canonical import canonicalize
from quantflow.graph.layers import describe_model
from quantflow.graph.passes.read_qdq import read_qdq
from quantflow.graph.quantized.file_layers import FileQuantization
from quantflow.graph.quantized.settle import settle
from tests.graph.models import build

Arrays = Mapping[str, np.ndarray]

INT8, UINT8 = np.int8, np.uint8


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def integers(*shape: int, seed: int = 0, low: int = -127, high: int = 127) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape, np.int64, endpoint=True)


def scalar(value: float, kind: Any = np.float32) -> np.ndarray:
    return np.asarray(value, kind)


@dataclass(frozen=True)
class Read:
    """A QDQ model as quantflow reads it."""

    model: ir.Model
    record: ModelRecord
    found: FileQuantization

    def layer(self, name: str) -> Layer:
        return next(x for x in self.record.layers if x.name == name)

    def given(self, name: str) -> GivenLayer:
        return next(x for x in self.record.given if x.layer == name)

    def weight(self, name: str) -> np.ndarray:
        return self.model.graph.initializers[self.layer(name).weight].const_value.numpy()


def loaded(model: onnx.ModelProto) -> ir.Model:
    return ir.from_proto(onnx.ModelProto.FromString(model.SerializeToString()))


def found_in(model: onnx.ModelProto) -> FileQuantization:
    """What is read of a file, before the layers are settled."""
    found = read_qdq(loaded(model))
    assert found is not None
    return found


def read(model: onnx.ModelProto, bucket: Mapping[str, int] | None = None) -> Read:
    result = loaded(model)
    found = read_qdq(result)
    assert found is not None
    notes = canonicalize(result, "2026")
    record = describe_model(result, bucket or {}, mask=None, notes=notes)
    return Read(result, settle(result, record, found), found)


def one_layer(
    kind: str = "MatMul",
    *,
    activation: Any = UINT8,
    zero: int = 128,
    scale: float = 0.02,
    weight: np.ndarray | None = None,
    weight_zero: int = 0,
    weight_scale: np.ndarray | None = None,
    axis: int = 1,
    bias: np.ndarray | None = None,
    attributes: str = "",
    opset: int = 18,
    shape: str = "4,8",
) -> onnx.ModelProto:
    """``y = kind(DQ(Q(x)), DQ(w) [, DQ(b)])`` whose layer is called n_y."""
    wq = integers(8, 5).astype(INT8) if weight is None else weight
    ws = scalar(0.01) if weight_scale is None else weight_scale
    arrays = {
        "xs": scalar(scale),
        "xz": scalar(zero, activation),
        "wq": wq,
        "ws": ws,
        "wz": np.full(ws.shape, weight_zero, wq.dtype),
    }
    parts = [
        "xq = QuantizeLinear(x, xs, xz)",
        "xd = DequantizeLinear(xq, xs, xz)",
        f"wd = DequantizeLinear{f'<axis={axis}>' if ws.ndim else ''}(wq, ws, wz)",
    ]
    operands = "xd, wd"
    if bias is not None:
        product = np.atleast_1d(np.float32(scale) * ws)
        arrays |= {"bq": bias.astype(np.int32), "bs": np.broadcast_to(product, bias.shape)}
        parts.append("bd = DequantizeLinear<axis=0>(bq, bs)")
        operands += ", bd"
    parts.append(f"y = {kind}{attributes}({operands})")
    rank = ",".join("?" for _ in shape.split(","))
    text = f"(float[{shape}] x) => (float[{rank}] y) {{ {' '.join(parts)} }}"
    return build(text, arrays, opset=opset)


# --- models quantized by onnxruntime -----------------------------------------------------------


class _Reader(CalibrationDataReader):
    def __init__(self, shape: tuple[int, ...]) -> None:
        self._feeds = iter([{"x": normal(*shape, seed=i)} for i in range(8)])

    def get_next(self) -> dict[str, np.ndarray] | None:  # type: ignore[override]
        return next(self._feeds, None)


@dataclass(frozen=True)
class Scheme:
    """How onnxruntime is told to quantize."""

    activation: QuantType
    weight: QuantType
    per_channel: bool
    symmetric: bool
    format: QuantFormat = QuantFormat.QDQ

    def __str__(self) -> str:
        kind = f"{self.format.name}-a{self.activation.name}-w{self.weight.name}"
        return kind + ("-channel" if self.per_channel else "") + ("-sym" if self.symmetric else "")


SCHEMES = (
    Scheme(QuantType.QUInt8, QuantType.QInt8, per_channel=True, symmetric=False),
    Scheme(QuantType.QUInt8, QuantType.QUInt8, per_channel=False, symmetric=False),
    Scheme(QuantType.QInt8, QuantType.QInt8, per_channel=True, symmetric=True),
    Scheme(QuantType.QInt8, QuantType.QInt8, per_channel=False, symmetric=False),
)
QOPERATOR = Scheme(
    QuantType.QUInt8, QuantType.QInt8, per_channel=True, symmetric=False,
    format=QuantFormat.QOperator,
)  # fmt: skip


def quantized(source: Path, scheme: Scheme, shape: tuple[int, ...]) -> Path:
    """The file that onnxruntime makes of a float model."""
    target = source.with_name(f"{source.stem}-{scheme}.onnx")
    quantize_static(
        source,
        target,
        _Reader(shape),
        quant_format=scheme.format,
        per_channel=scheme.per_channel,
        activation_type=scheme.activation,
        weight_type=scheme.weight,
        extra_options={"ActivationSymmetric": scheme.symmetric, "WeightSymmetric": True},
    )
    return target


def write_mlp(folder: Path) -> Path:
    """Gemm, Relu, MatMul and its bias, Tanh, a residual Add, MatMul."""
    arrays = {
        "w0": normal(16, 32, seed=10) / 6, "b0": normal(32, seed=11),
        "w1": normal(32, 32, seed=12) / 6, "b1": normal(32, seed=13),
        "w2": normal(32, 8, seed=14) / 6,
    }  # fmt: skip
    node = helper.make_node
    nodes = [
        node("Gemm", ["x", "w0", "b0"], ["g0"], name="fc0"),
        node("Relu", ["g0"], ["r0"], name="relu"),
        node("MatMul", ["r0", "w1"], ["m1"], name="fc1"),
        node("Add", ["m1", "b1"], ["a1"], name="add1"),
        node("Tanh", ["a1"], ["t1"], name="tanh"),
        node("Add", ["t1", "r0"], ["res"], name="residual"),
        node("MatMul", ["res", "w2"], ["y"], name="head"),
    ]
    return _write(folder / "mlp.onnx", nodes, arrays, (16,), (8,))


def write_cnn(folder: Path) -> Path:
    """Conv, Relu6, depthwise Conv, Relu, Conv, a residual Add, pooling, Gemm."""
    arrays = {
        "w0": normal(8, 3, 3, 3, seed=20) / 4, "b0": normal(8, seed=21),
        "w1": normal(8, 1, 3, 3, seed=22) / 4, "b1": normal(8, seed=23),
        "w2": normal(8, 8, 1, 1, seed=24) / 4,
        "w3": normal(8, 5, seed=25) / 4, "b3": normal(5, seed=26),
        "low": scalar(0), "high": scalar(6),
    }  # fmt: skip
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w0", "b0"], ["c0"], name="stem", pads=[1, 1, 1, 1]),
        node("Clip", ["c0", "low", "high"], ["r0"], name="relu6"),
        node("Conv", ["r0", "w1", "b1"], ["c1"], name="depthwise", pads=[1, 1, 1, 1], group=8),
        node("Relu", ["c1"], ["r1"], name="relu"),
        node("Conv", ["r1", "w2"], ["c2"], name="pointwise"),
        node("Add", ["c2", "r0"], ["a"], name="residual"),
        node("MaxPool", ["a"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", ["p"], ["g"], name="mean"),
        node("Flatten", ["g"], ["f"], name="flat"),
        node("Gemm", ["f", "w3", "b3"], ["y"], name="head"),
    ]
    return _write(folder / "cnn.onnx", nodes, arrays, (3, 8, 8), (5,))


def _write(
    path: Path,
    nodes: list[onnx.NodeProto],
    arrays: Arrays,
    taken: tuple[int, ...],
    given: tuple[int, ...],
) -> Path:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", TensorProto.FLOAT, ["batch", *taken])],
        [info("y", TensorProto.FLOAT, ["batch", *given])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path


def initializers(path: Path) -> dict[str, np.ndarray]:
    return {x.name: numpy_helper.to_array(x) for x in onnx.load(path).graph.initializer}
