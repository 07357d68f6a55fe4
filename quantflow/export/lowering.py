"""The deploy model in standard ONNX integer operators, for onnxruntime.

It is made of the deploy file alone, so that a figure measured on it is a figure of that file.
Nothing is approximated: accumulation is exact int32, and activations only shift by 128 to uint8,
zero point included, because onnxruntime multiplies u8 x s8 several times faster than s8 x s8.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from quantflow.export.additions import Additions
from quantflow.export.deployed import DeployedLayer, deployed_layers
from quantflow.export.islands import deploy_islands
from quantflow.graph.edit import copy_model
from quantflow.graph.passes.emulate_fp16 import emulate_fp16 as round_to_fp16
from quantflow.numerics.rounding import truncate_fp19

_SHIFT = 128
"""From int8 to uint8."""


def lower(deploy: ir.Model, *, fp19: bool, emulate_fp16: bool, islands: frozenset[str]) -> ir.Model:
    """Lower every AscendQuant and AscendDequant of a deploy model.

    Names of all float values, of int32 accumulators and of MatMul and Gemm nodes are kept.

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
    quantized = dict[ir.Node, ir.Value]()
    for layer in deployed_layers(lowered):
        if layer.quant not in quantized:
            quantized[layer.quant] = _lower_quant(layer, additions)
        _lower_product(layer, quantized[layer.quant], additions)
        _lower_dequant(layer, fp19, additions)
    for quant in quantized:
        lowered.graph.remove(quant, safe=True)
    return lowered


def _lower_quant(layer: DeployedLayer, additions: Additions) -> ir.Value:
    """``clip(rint(x * scale) + offset, -128, 127) + 128`` as uint8.

    Offset and shift are one addition: `rint` gives an integer, sums of integers below 2^24 are
    exact in float32, and beyond that both orders saturate to the same bound.
    """
    name, source = layer.quant.name, layer.quant.inputs[0]
    assert source is not None

    def constant(suffix: str, value: np.float32) -> ir.Value:
        return additions.initializer(f"{name}/{suffix}", np.asarray(value, np.float32))

    shifted = np.float32(layer.zero_point + _SHIFT)
    steps: list[tuple[str, list[ir.Value]]] = [
        ("Mul", [constant("scale", layer.multiplier)]),
        ("Round", []),
        ("Add", [constant("offset", shifted)]),
        ("Clip", [constant("low", np.float32(0)), constant("high", np.float32(255))]),
    ]
    nodes, value = list[ir.Node](), source
    for op_type, operands in steps:
        node = additions.node(
            f"{name}/{op_type}", op_type, [value, *operands], ir.DataType.FLOAT, like=source
        )
        nodes.append(node)
        value = node.outputs[0]
    to = [ir.AttrInt64("to", ir.DataType.UINT8.value)]
    cast = additions.node(
        f"{name}/Cast", "Cast", [value], ir.DataType.UINT8, like=source, attributes=to
    )
    assert isinstance(layer.quant.graph, ir.Graph)
    layer.quant.graph.insert_before(layer.quant, [*nodes, cast])
    return cast.outputs[0]


def _lower_product(layer: DeployedLayer, activation: ir.Value, additions: Additions) -> None:
    """Turn the MatMul or Gemm, in place, into a MatMulInteger and the Add of a Gemm's bias."""
    node = layer.product
    bias = (*node.inputs, None)[2]
    zero_point = np.array(layer.zero_point + _SHIFT, np.uint8)
    node.op_type = "MatMulInteger"
    node.attributes.clear()
    node.resize_inputs(3)
    node.replace_input_with(0, activation)
    node.replace_input_with(2, additions.initializer(f"{node.name}/zero_point", zero_point))
    weight = node.inputs[1]
    if weight is not None and len(weight.uses()) > 1 and weight.const_value is not None:
        # A weight each: onnxruntime, making it uint8, does not load a model that shares one.
        own = additions.initializer(f"{node.name}/weight", weight.const_value.numpy())
        node.replace_input_with(1, own)
    if bias is None:
        return
    product = node.outputs[0]
    readers = list(product.uses())
    add = additions.node(
        f"{node.name}/bias", "Add", [product, bias], ir.DataType.INT32, like=product
    )
    for use in readers:
        use.node.replace_input_with(use.idx, add.outputs[0])
    # The accumulator's name stays with the sum.
    add.outputs[0].name, product.name = product.name, add.outputs[0].name
    assert isinstance(node.graph, ir.Graph)
    node.graph.insert_after(node, add)


def _lower_dequant(layer: DeployedLayer, fp19: bool, additions: Additions) -> None:
    """``float32(accumulator) * deq_scale``."""
    dequant = layer.dequant
    accumulator, output = dequant.inputs[0], dequant.outputs[0]
    assert accumulator is not None and isinstance(dequant.graph, ir.Graph)
    scale = truncate_fp19(layer.deq_scale) if fp19 else layer.deq_scale
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
