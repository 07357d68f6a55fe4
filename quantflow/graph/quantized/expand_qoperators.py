"""QOperator form (QLinearConv and its kin) as QDQ: DequantizeLinear before, QuantizeLinear after.

The two forms mean the same; onnxruntime writes either.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from quantflow.errors import Problem, QuantflowError
from quantflow.graph.edit import constant, fresh_name

_DYNAMIC = {
    "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "DynamicQuantizeMatMul",
    "MatMulIntegerToFloat", "DynamicQuantizeLSTM",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Form:
    """How an operator in integers is laid out.

    Attributes:
        op_type: what it computes on floats.
        operands: positions of its integer inputs; scale and zero point follow each.
        result: position of the scale of its output.
        bias: position of an int32 bias in steps of the product of both scales, or None.
    """

    op_type: str
    operands: tuple[int, ...]
    result: int
    bias: int | None = None


_FORMS = {
    "QLinearConv": _Form("Conv", (0, 3), 6, 8),
    "QLinearMatMul": _Form("MatMul", (0, 3), 6),
    "QGemm": _Form("Gemm", (0, 3), 7, 6),
    "QLinearAdd": _Form("Add", (0, 3), 6),
    "QLinearMul": _Form("Mul", (0, 3), 6),
    "QLinearSigmoid": _Form("Sigmoid", (0,), 3),
    "QLinearLeakyRelu": _Form("LeakyRelu", (0,), 3),
    "QLinearAveragePool": _Form("AveragePool", (0,), 3),
    "QLinearGlobalAveragePool": _Form("GlobalAveragePool", (0,), 3),
}

_OWN_ATTRIBUTES = ("channels_last",)
"""Attributes of onnxruntime's operators that the standard ones lack; at 0 they say nothing."""


def expand_qoperators(model: ir.Model) -> int:
    """Rewrite QOperator nodes in place; returns how many there were.

    Raises:
        QuantflowError: QF230, naming every kind, for operators that quantize as they go, and for
            others in integers that are not known here.
    """
    nodes = list(model.graph.all_nodes())
    if problems := [x for kind in _kinds(nodes) if (x := _problem(kind, nodes))]:
        raise QuantflowError(problems)
    found = [node for node in nodes if node.op_type in _FORMS]
    taken = set(model.graph.initializers)
    for node in found:
        _expand(node, model, taken)
    return len(found)


def _kinds(nodes: list[ir.Node]) -> list[str]:
    return list(dict.fromkeys(node.op_type for node in nodes))


def _problem(kind: str, nodes: list[ir.Node]) -> Problem | None:
    first = next(node for node in nodes if node.op_type == kind)
    where = f"{kind} {first.name}"
    if kind in _DYNAMIC:
        what = f"{kind} chooses scales while it runs, AscendQuant needs them beforehand"
        fix = "quantize statically in QDQ format, or give the float model it was made from"
        return Problem("QF230", what, where=where, fix=fix)
    swaps = first.attributes.get_int("channels_last", 0)
    if kind in _FORMS and not swaps:
        return None
    if kind.startswith("QLinear") or kind in _FORMS:
        what = f"{kind} computes on integers in a way that is not read"
        fix = "quantize in QDQ format (onnxruntime: quant_format=QuantFormat.QDQ)"
        return Problem("QF230", what, where=where, fix=fix)
    return None


def _expand(node: ir.Node, model: ir.Model, taken: set[str]) -> None:
    form, inputs = _FORMS[node.op_type], [*node.inputs, *[None] * 9]
    tape = ir.tape.Tape()
    axis = _weight_axis(node)
    operands = list[ir.Value | None]()
    for place, index in enumerate(form.operands):
        attributes = {"axis": axis} if place else {}
        operands.append(tape.op("DequantizeLinear", inputs[index : index + 3], attributes))
    if form.bias is not None and (bias := inputs[form.bias]) is not None:
        scale = _bias_scale(node, inputs, model, taken)
        operands.append(tape.op("DequantizeLinear", [bias, scale], {"axis": 0}))
    kept = {k: v for k, v in node.attributes.items() if k not in _OWN_ATTRIBUTES}
    floats = ir.Node("", form.op_type, operands, list(kept.values()))
    outputs = [floats]
    last = floats.outputs[0]
    if inputs[form.result] is not None:  # a QGemm without it puts out floats
        end = ir.node("QuantizeLinear", [last, *inputs[form.result : form.result + 2]])
        outputs.append(end)
        last = end.outputs[0]
    _replace(node, [*tape.nodes, *outputs], last)


def _weight_axis(node: ir.Node) -> int:
    """The axis that scales of a second operand run along: its output channels."""
    if node.op_type == "QLinearConv":
        return 0
    return 0 if node.attributes.get_int("transB", 0) else 1


def _bias_scale(
    node: ir.Node, inputs: list[ir.Value | None], model: ir.Model, taken: set[str]
) -> ir.Value:
    """``scale of the input * scale of the weight`` as an initializer."""
    scales = [constant(inputs[1]), constant(inputs[4])]
    product = np.float32(1)
    for tensor in scales:
        if tensor is None:
            what = f"a scale of {node.op_type} {node.name!r} is computed, not constant"
            raise QuantflowError([Problem("QF230", what, where=str(node.name))])
        product = product * np.asarray(tensor.numpy(), np.float32)
    name = fresh_name(f"{node.name}/bias_scale", taken)
    taken.add(name)
    flat = product.reshape(()) if product.size == 1 else product.reshape(-1)
    value = ir.val(name, const_value=ir.tensor(np.asarray(flat, np.float32), name=name))
    model.graph.register_initializer(value)
    return value


def _replace(node: ir.Node, new: list[ir.Node], last: ir.Value) -> None:
    """Put nodes in the place of one; the operator itself keeps its name, so that layers do."""
    graph, name, old = node.graph, node.name, node.outputs[0]
    assert isinstance(graph, ir.Graph)
    for index, fresh in enumerate(new):
        plain = fresh.op_type not in ("QuantizeLinear", "DequantizeLinear")
        fresh.name = name if plain else f"{name}/{fresh.op_type}_{index}"
        for output in fresh.outputs:
            output.name = f"{fresh.name}/output"
    ir.convenience.replace_nodes_and_values(graph, node, [node], new, [old], [last])
