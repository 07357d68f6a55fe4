"""Reading a deploy model: the INT8 layers of a file, and nothing that is not in the file.

Whoever evaluates a deploy model starts here, so that what is reported is what the file says. Where
the compiler would silently read something else (an attribute of the wrong type reads 0), reading
stops with an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.errors import fail
from quantflow.export.deploy import unpack_deq_scale
from quantflow.graph.edit import constant
from quantflow.graph.window import window_of
from quantflow.numerics.quantize import QMAX, QMIN

_WEIGHT_RANKS = {
    "MatMul": (2,), "Gemm": (2,), "Conv": (3, 4, 5), "ConvTranspose": (4,), "AveragePool": (),
}  # fmt: skip
"""Axes that the weight of an int8 layer may have, by op type."""


@dataclass(frozen=True, slots=True)
class DeployedInput:
    """An int8 input of a layer.

    Attributes:
        quant: the AscendQuant that makes it; layers may share one.
        multiplier, zero_point: its `scale` and `offset`.
    """

    quant: ir.Node
    multiplier: np.float32
    zero_point: int


@dataclass(frozen=True, slots=True)
class DeployedLayer:
    """One INT8 layer as a file holds it.

    Attributes:
        inputs: its one int8 input, or the two of a MatMul of two variables.
        product: the node that multiplies, or the AveragePool.
        add: the Add of an int32 bias behind a MatMul, or None.
        dequant: the AscendDequant.
        deq_scale: ``(1,)`` or ``(N,)`` float32.
    """

    inputs: tuple[DeployedInput, ...]
    product: ir.Node
    add: ir.Node | None
    dequant: ir.Node
    deq_scale: NDArray[np.float32]

    @property
    def accumulator(self) -> ir.Value:
        """The int32 result, bias included."""
        return (self.add or self.product).outputs[0]


def deployed_layers(deploy: ir.Model) -> list[DeployedLayer]:
    """The INT8 layers of a deploy model, in graph order.

    Raises:
        QuantflowError: QF544 for an AscendQuant or AscendDequant that is not in the form that
            quantflow writes.
    """
    layers = [_layer(node) for node in deploy.graph if node.op_type == "AscendDequant"]
    products = {layer.product for layer in layers}
    for node in deploy.graph.all_nodes():
        if node.op_type == "AscendQuant":
            for reader in node.successors():
                if reader not in products:
                    _refuse(node, f"its output is read by {reader.op_type} {reader.name!r}")
    return layers


def _layer(dequant: ir.Node) -> DeployedLayer:
    accumulator, packed = (*dequant.inputs, None, None)[:2]
    last = accumulator.producer() if accumulator is not None else None
    add = last if last is not None and last.op_type == "Add" else None
    product = _producer(last, 0) if add is not None else last
    if product is None or product.op_type not in _WEIGHT_RANKS:
        _refuse(dequant, "it does not follow an int8 layer")
    inputs = [_input(product, 0)]
    if product.op_type == "MatMul" and constant(product.inputs[1]) is None:
        inputs.append(_input(product, 1))
        if any(entry.zero_point for entry in inputs):
            _refuse(product, "it multiplies two activations, and one has a zero point")
    elif product.op_type != "AveragePool":
        _check_weight(product)
    _check_attributes(product)
    _check_bias(product, add)
    if _attribute(dequant, "dtype", ir.AttributeType.INT) != 0:
        _refuse(dequant, "it writes another type than float32")
    return DeployedLayer(
        inputs=tuple(inputs),
        product=product,
        add=add,
        dequant=dequant,
        deq_scale=_deq_scale(dequant, packed),
    )


def _producer(node: ir.Node | None, index: int) -> ir.Node | None:
    value = node.inputs[index] if node is not None and len(node.inputs) > index else None
    return value.producer() if value is not None else None


def _input(product: ir.Node, index: int) -> DeployedInput:
    quant = _producer(product, index)
    if quant is None or quant.op_type != "AscendQuant":
        _refuse(product, "its activation is not the output of an AscendQuant")
    multiplier, zero_point = _quant_parameters(quant)
    return DeployedInput(quant, multiplier, zero_point)


def _check_weight(product: ir.Node) -> None:
    ranks = _WEIGHT_RANKS[product.op_type]
    weight = constant(product.inputs[1])
    if weight is None or weight.dtype != ir.DataType.INT8 or weight.shape.rank() not in ranks:
        dims = " or ".join(f"{rank}-D" for rank in ranks)
        _refuse(product, f"its weight is not a constant {dims} int8 tensor")


def _check_attributes(product: ir.Node) -> None:
    attributes = product.attributes
    if any(attributes.get_int(name, 0) for name in ("transA", "transB")) or any(
        attributes.get_float(name, 1.0) != 1.0 for name in ("alpha", "beta")
    ):
        _refuse(product, "it transposes or scales")
    if product.op_type == "AveragePool":
        window = window_of(product)
        padded = window is None or any(window.pads)
        if (padded and not attributes.get_int("count_include_pad", 0)) or attributes.get_int(
            "ceil_mode", 0
        ):
            _refuse(product, "it divides by another number at the border")


def _check_bias(product: ir.Node, add: ir.Node | None) -> None:
    bias = add.inputs[1] if add is not None else (*product.inputs, None, None)[2]
    tensor = constant(bias)
    if bias is not None and (tensor is None or tensor.dtype != ir.DataType.INT32):
        _refuse(add or product, "its bias is not a constant int32 tensor")


def _quant_parameters(quant: ir.Node) -> tuple[np.float32, int]:
    scale = _attribute(quant, "scale", ir.AttributeType.FLOAT)
    offset = _attribute(quant, "offset", ir.AttributeType.FLOAT)
    if _attribute(quant, "dst_type", ir.AttributeType.STRING) != "INT8":
        _refuse(quant, "dst_type is not INT8")
    if offset != round(offset) or not QMIN <= offset <= QMAX:
        _refuse(quant, f"offset {offset} is not an integer in [-128, 127]")
    return np.float32(scale), round(offset)


def _attribute(node: ir.Node, name: str, kind: ir.AttributeType) -> Any:
    attribute = node.attributes.get(name)
    if attribute is None or attribute.type != kind:
        found = "missing" if attribute is None else f"of type {attribute.type.name}"
        _refuse(node, f"attribute {name!r} is {found}, and the compiler would read 0")
    return attribute.value


def _deq_scale(dequant: ir.Node, packed: ir.Value | None) -> NDArray[np.float32]:
    tensor = constant(packed)
    if tensor is None or tensor.dtype != ir.DataType.UINT64 or tensor.shape.rank() != 1:
        _refuse(dequant, "its deq scale is not a constant 1-D uint64 tensor")
    return unpack_deq_scale(np.asarray(tensor.numpy()))


def _refuse(node: ir.Node, what: str) -> NoReturn:
    fail(
        "QF544",
        f"not in the dialect that quantflow reads: {what}",
        where=f"{node.op_type} {node.name!r}",
        fix="use a deploy model as `quantflow export-onnx` writes it",
    )
