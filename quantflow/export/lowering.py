"""The deploy model in standard ONNX operators, for onnxruntime.

It is made of the deploy file alone, so that a figure measured on it is a figure of that file.
Nothing is approximated: every accumulator is the exact int32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.export.additions import Additions
from quantflow.export.deployed import DeployedLayer, deployed_layers
from quantflow.export.islands import deploy_islands
from quantflow.export.lowered.average import average_to_sum, sum_scale
from quantflow.export.lowered.convolution import to_exact_convolution
from quantflow.export.lowered.inputs import LoweredInputs
from quantflow.export.lowered.matmul import to_integer_matmul
from quantflow.graph.edit import copy_model
from quantflow.graph.passes.emulate_fp16 import emulate_fp16 as round_to_fp16
from quantflow.numerics.rounding import truncate_fp19

_PRODUCTS: Final[Mapping[str, Callable[[DeployedLayer, LoweredInputs, Additions], None]]] = {
    "MatMul": to_integer_matmul,
    "Gemm": to_integer_matmul,
    "Conv": to_exact_convolution,
    "ConvTranspose": to_exact_convolution,
    "AveragePool": average_to_sum,
}
"""What the node of an INT8 layer becomes, by op type."""


def lower(deploy: ir.Model, *, fp19: bool, emulate_fp16: bool, islands: frozenset[str]) -> ir.Model:
    """Lower every AscendQuant and AscendDequant of a deploy model.

    Names of all float values, of int32 accumulators and of the layers' nodes are kept.

    Args:
        deploy: the deploy model; not changed.
        fp19: truncate dequantization scales to FP19, as chips with a fixpipe do.
        emulate_fp16: round all float tensors outside the islands to fp16.
        islands: names of the float model's nodes that run in fp32.

    Raises:
        QuantflowError: QF544 when the file is not in the dialect that quantflow writes.
    """
    if emulate_fp16:
        lowered = round_to_fp16(deploy, deploy_islands(deploy, islands))
    else:
        lowered = copy_model(deploy)
    additions = Additions(lowered)
    inputs = LoweredInputs(additions)
    layers = deployed_layers(lowered)
    for layer in layers:
        scale = _scale(layer, fp19)
        _PRODUCTS[layer.product.op_type](layer, inputs, additions)
        _lower_dequant(layer, scale, additions)
    for quant in dict.fromkeys(entry.quant for layer in layers for entry in layer.inputs):
        lowered.graph.remove(quant, safe=True)
    return lowered


def _scale(layer: DeployedLayer, fp19: bool) -> NDArray[np.float32]:
    """What the accumulator is multiplied by, in a shape that broadcasts to it."""
    scale = truncate_fp19(layer.deq_scale) if fp19 else layer.deq_scale
    if layer.product.op_type == "AveragePool":
        return sum_scale(layer.product, scale)
    if layer.product.op_type in ("MatMul", "Gemm") or scale.size == 1:
        return scale
    weight = layer.product.inputs[1]
    assert weight is not None and weight.shape is not None
    return scale.reshape(-1, *(1,) * (weight.shape.rank() - 2))


def _lower_dequant(layer: DeployedLayer, scale: NDArray[np.float32], additions: Additions) -> None:
    """``float32(accumulator) * scale``."""
    dequant = layer.dequant
    accumulator, output = dequant.inputs[0], dequant.outputs[0]
    assert accumulator is not None and isinstance(dequant.graph, ir.Graph)
    to = [ir.AttrInt64("to", ir.DataType.FLOAT.value)]
    cast = additions.node(
        f"{dequant.name}/Cast", "Cast", [accumulator], ir.DataType.FLOAT, like=output, attributes=to
    )
    dequant.graph.insert_before(dequant, cast)
    scales = additions.initializer(f"{dequant.name}/scale", scale)
    packed = dequant.inputs[1]
    dequant.op_type = "Mul"
    dequant.attributes.clear()
    dequant.replace_input_with(0, cast.outputs[0])
    dequant.replace_input_with(1, scales)
    if packed is not None and packed.name and not packed.uses():
        del dequant.graph.initializers[packed.name]
