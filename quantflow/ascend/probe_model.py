"""A probe's layer as a model in the deploy dialect."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.ascend.probe_cases import ProbeCase
from quantflow.target.op_table import Cann, opset_ceiling

INPUT, OUTPUT = "x", "y"
"""Names of the model's input and output."""


def probe_model(case: ProbeCase, cann: Cann) -> ir.Model:
    """``x -> AscendQuant -> MatMul or Conv -> AscendDequant -> y``, shapes static, without a bias.

    Args:
        case: the layer and its input.
        cann: version that compiles it, which sets the opset.
    """
    shape = next(iter(case.hypotheses.values())).shape
    x = _value(INPUT, ir.DataType.FLOAT, case.x.shape)
    q = _value("q", ir.DataType.INT8, case.x.shape)
    sums = _value("sums", ir.DataType.INT32, shape)
    y = _value(OUTPUT, ir.DataType.FLOAT, shape)
    weight = _initializer("weight", case.weight)
    # The bits of the float32 in the low half of a uint64, the high half zero.
    packed = _initializer("deq_scale", case.scale.view(np.uint32).astype(np.uint64))
    quant = [
        ir.AttrFloat32("scale", 1.0),
        ir.AttrFloat32("offset", float(case.offset)),
        ir.AttrString("dst_type", "INT8"),
    ]
    pads = [ir.AttrInt64s("pads", [1, 1, 1, 1])] if case.op_type == "Conv" else []
    dequant = [ir.AttrInt64("dtype", 0)]
    nodes = [
        ir.Node("", "AscendQuant", [x], quant, outputs=[q], name="quant"),
        ir.Node("", case.op_type, [q, weight], pads, outputs=[sums], name="layer"),
        ir.Node("", "AscendDequant", [sums, packed], dequant, outputs=[y], name="dequant"),
    ]
    graph = ir.Graph(
        [x],
        [y],
        nodes=nodes,
        initializers=[weight, packed],
        opset_imports={"": min(17, opset_ceiling(cann))},
        name=case.name,
    )
    return ir.Model(graph, ir_version=8)


def _value(name: str, dtype: ir.DataType, shape: tuple[int, ...]) -> ir.Value:
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(dtype))


def _initializer(name: str, array: NDArray[Any]) -> ir.Value:
    tensor = ir.tensor(array, name=name)
    return ir.Value(
        name=name,
        shape=ir.Shape(array.shape),
        type=ir.TensorType(tensor.dtype),
        const_value=tensor,
    )
