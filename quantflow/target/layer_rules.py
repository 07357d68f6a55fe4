"""Rules about INT8 layers: weights, biases, and what stands between layer and AscendDequant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import onnx_ir as ir

from quantflow.target.dialect import (
    WEIGHTED_OPS,
    LintFinding,
    constant,
    input_of,
    int_attribute,
    is_int8_layer,
    is_int8_pair,
    label,
    nodes_of,
    output_channels,
    static_dims,
)

_GEMM_INTEGERS: Final = ("transA", "transB")
_GEMM_FACTORS: Final = ("alpha", "beta")


def layer_weights(model: ir.Model) -> Iterator[LintFinding]:
    """An INT8 layer has a constant int8 weight, and an int8 weight belongs to an INT8 layer."""
    for node in nodes_of(model, *WEIGHTED_OPS):
        weight = constant(input_of(node, 1))
        if is_int8_pair(node):
            continue
        if is_int8_layer(node):
            if weight is None or weight.dtype != ir.DataType.INT8:
                found = "not an initializer" if weight is None else weight.dtype.name
                what = f"its activation is int8, its weight is {found}"
                yield _error("layer-weights", node, what, "write the weight as int8 initializer")
            elif node.op_type in ("MatMul", "Gemm") and len(static_dims(weight)) != 2:
                what = f"its weight has {len(static_dims(weight))} dimensions"
                yield _error("layer-weights", node, what, "weights of this op are 2-D")
            elif node.op_type in ("Conv", "ConvTranspose"):
                yield from _filter(node, static_dims(weight))
        elif weight is not None and weight.dtype == ir.DataType.INT8:
            what = "its weight is int8, its activation does not come from an AscendQuant"
            yield _error("layer-weights", node, what, "a layer in fp16 reads the float weight")


def _filter(node: ir.Node, dims: tuple[int, ...]) -> Iterator[LintFinding]:
    """Rank and channels of a convolution's weight."""
    groups = int_attribute(node, "group", 1)
    if not 3 <= len(dims) <= 5:
        what = f"its weight has {len(dims)} dimensions"
        yield _error("layer-weights", node, what, "filters have 3 to 5: 1-D, 2-D or 3-D")
        return
    if not groups or dims[0] % groups:
        what = f"its weight has {dims[0]} filters for {groups} groups"
        yield _error("layer-weights", node, what, "the groups share the filters out evenly")
        return
    source = input_of(node, 0)
    shape = source.shape if source is not None else None
    channels = shape[1] if shape is not None and shape.rank() > 1 else None
    wanted = dims[0] if node.op_type == "ConvTranspose" else dims[1] * groups
    if isinstance(channels, int) and channels != wanted:
        what = f"its weight is for {wanted} channels, its input has {channels}"
        fix = "weights are (N, C / groups, ...), of ConvTranspose (C, N / groups, ...)"
        yield _error("layer-weights", node, what, fix)


def layer_attributes(model: ir.Model) -> Iterator[LintFinding]:
    """Gemm without transposition and factors, ConvTranspose 4-D without dilation."""
    for node in nodes_of(model, *WEIGHTED_OPS, "AveragePool"):
        if not is_int8_layer(node):
            continue
        if node.op_type == "Gemm":
            odd = [name for name in _GEMM_INTEGERS if int_attribute(node, name, 0) != 0]
            odd += [name for name in _GEMM_FACTORS if not _is_one(node, name)]
            if odd:
                what = f"an INT8 Gemm with {', '.join(odd)} set"
                yield _error("layer-attributes", node, what, "fold them into weight and bias")
        elif node.op_type == "ConvTranspose" and not _plain_transpose(node):
            what = "an INT8 ConvTranspose needs a 4-D filter and dilation 1"
            yield _error("layer-attributes", node, what, "leave it in fp16")
        elif node.op_type == "AveragePool":
            yield LintFinding(
                "warning",
                "layer-attributes",
                "the integer arithmetic of AveragePool is not verified",
                label(node),
                "leave it in fp16",
            )


def layer_biases(model: ir.Model) -> Iterator[LintFinding]:
    """The bias of an INT8 layer is an int32 initializer, one number per output channel."""
    for node in nodes_of(model, *(WEIGHTED_OPS - {"MatMul"})):
        if is_int8_layer(node) and input_of(node, 2) is not None:
            yield from _bias(node, node, input_of(node, 2))


def layer_outputs(model: ir.Model) -> Iterator[LintFinding]:
    """int32 goes to AscendDequant, for a MatMul through an Add with the bias as second input."""
    for node in nodes_of(model, *WEIGHTED_OPS, "AveragePool"):
        if not is_int8_layer(node):
            continue
        for use in _uses(node):
            reader, index = use
            if node.op_type == "MatMul" and reader is not None and reader.op_type == "Add":
                yield from _bias_add(node, reader, index)
            elif not _is_dequant(reader, index):
                yield _stray(node, reader)


def _bias_add(layer: ir.Node, add: ir.Node, index: int) -> Iterator[LintFinding]:
    if index != 0:
        what = f"the bias of {label(layer)} is the first input of this Add"
        yield _error("layer-biases", add, what, "make the bias the second input")
        return
    yield from _bias(layer, add, input_of(add, 1))
    for reader, position in _uses(add):
        if not _is_dequant(reader, position):
            yield _stray(add, reader)


def _bias(layer: ir.Node, holder: ir.Node, value: ir.Value | None) -> Iterator[LintFinding]:
    bias = constant(value)
    if bias is None or bias.dtype != ir.DataType.INT32:
        found = "not an initializer" if bias is None else bias.dtype.name
        what = f"the bias of an INT8 layer is {found}"
        yield _error("layer-biases", holder, what, "write round(bias / (scale_d * scale_w)), int32")
        return
    channels = output_channels(layer)
    if channels is not None and static_dims(bias) != (channels,):
        what = f"the bias has shape {static_dims(bias)}, the layer {channels} output channels"
        yield _error("layer-biases", holder, what, "write one number per output channel")


def _uses(node: ir.Node) -> list[tuple[ir.Node | None, int]]:
    """Who reads a node's outputs, and as which input; None stands for the graph's own output."""
    uses: list[tuple[ir.Node | None, int]] = []
    for value in node.outputs:
        uses += [(use.node, use.idx) for use in value.uses()]
        if value.is_graph_output():
            uses.append((None, 0))
    return uses


def _is_dequant(reader: ir.Node | None, index: int) -> bool:
    return reader is not None and reader.op_type == "AscendDequant" and index == 0


def _stray(node: ir.Node, reader: ir.Node | None) -> LintFinding:
    place = "the graph's output" if reader is None else f"{label(reader)} ({reader.op_type})"
    what = f"its int32 output is read by {place}"
    return _error("layer-outputs", node, what, "put an AscendDequant between them")


def _is_one(node: ir.Node, name: str) -> bool:
    attribute = node.attributes.get(name)
    return attribute is None or (not attribute.is_ref() and attribute.value == 1.0)


def _plain_transpose(node: ir.Node) -> bool:
    weight = constant(input_of(node, 1))
    dilations = node.attributes.get("dilations")
    plain = dilations is None or (
        dilations.type == ir.AttributeType.INTS
        and not dilations.is_ref()
        and all(step == 1 for step in dilations.as_ints())
    )
    return plain and (weight is None or len(static_dims(weight)) == 4)


def _error(rule: str, node: ir.Node, what: str, fix: str) -> LintFinding:
    return LintFinding("error", rule, what, label(node), fix)
