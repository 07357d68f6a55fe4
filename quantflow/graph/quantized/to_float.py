"""The float model inside a QDQ model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from quantflow.errors import fail
from quantflow.graph.edit import fresh_name
from quantflow.graph.names import rename_outputs
from quantflow.graph.quantized.activation_function import restore_activation
from quantflow.graph.quantized.affine import Affine, affine_of, is_dequantize, is_quantize
from quantflow.graph.quantized.constants import quantized_constant
from quantflow.graph.quantized.explicit import write_dequantize, write_quantize
from quantflow.graph.quantized.grid_ops import grid_inputs


@dataclass(frozen=True, slots=True)
class Removed:
    """What was done to a QDQ model.

    Attributes:
        nodes: number of QuantizeLinear and DequantizeLinear that it had.
        activations: names of the values of Relu and Clip that came back in their place.
        boundary: names of the nodes at its boundary that are computed explicitly now.
    """

    nodes: int
    activations: tuple[str, ...]
    boundary: tuple[str, ...]


def to_float(model: ir.Model) -> Removed:
    """Take every QuantizeLinear and DequantizeLinear out of a model, in place.

    Constants become the floats that they stand for. Activations are no longer quantized, so that
    the model is the one that was quantized, up to its constants.

    Raises:
        QuantflowError: QF230 for integers that anything computes with, and for scales that are not
            constant or differ between a QuantizeLinear and its DequantizeLinear.
    """
    outputs = [str(value.name) for value in model.graph.outputs]
    found = [x for x in model.graph.all_nodes() if is_quantize(x) or is_dequantize(x)]
    _constants_to_float(model)
    boundary, activations = list[str](), list[str]()
    passed = dict[ir.Node, Affine]()
    for node in [x for x in model.graph.all_nodes() if is_quantize(x)]:
        affine = affine_of(node)
        restored = restore_activation(node, affine, model)
        if restored is not None:
            activations.append(str(restored.name))
        if _pass_through(node, affine, restored or node.inputs[0], passed):
            boundary.append(str(node.name))
            write_quantize(node, affine)
    for node in [x for x in model.graph.all_nodes() if is_dequantize(x)]:
        if node.outputs[0].uses() or node.outputs[0].is_graph_output():
            boundary.append(str(node.name))
            write_dequantize(node, affine_of(node))
    RemoveUnusedNodesPass()(model)
    rename_outputs(model, outputs)
    return Removed(len(found), tuple(activations), tuple(boundary))


def _constants_to_float(model: ir.Model) -> None:
    """Replace every DequantizeLinear of a constant; equal ones give one float constant."""
    made = dict[tuple[ir.Value | None, ...], ir.Value]()
    taken = set(model.graph.initializers)
    for node in [x for x in model.graph.all_nodes() if is_dequantize(x)]:
        output = node.outputs[0]
        found = quantized_constant(output, model)
        if found is None:
            continue
        key = tuple(node.inputs)
        if key not in made:
            name = fresh_name(f"{output.name}/float", taken)
            taken.add(name)
            tensor = ir.tensor(found.floats().astype(affine_of(node).wide), name=name)
            made[key] = ir.val(name, const_value=tensor)
            model.graph.register_initializer(made[key])
        _replace(node, made[key])


def _pass_through(
    quantize: ir.Node, affine: Affine, source: ir.Value | None, passed: dict[ir.Node, Affine]
) -> bool:
    """Let all that reads a quantized value read the float instead.

    Args:
        quantize: the QuantizeLinear, of which `affine` is read.
        source: the float, a restored activation function included.
        passed: operators that move integers and were turned to floats before; added to.

    Returns:
        Whether the integers are an output of the model as well.
    """
    assert source is not None
    waiting = [(quantize.outputs[0], source)]
    while waiting:
        integers, floats = waiting.pop()
        for use in list(integers.uses()):
            node = use.node
            if is_dequantize(node) and use.idx == 0:
                _require_same(quantize, affine, affine_of(node), node)
                _replace(node, floats)
            elif node.op_type == "Clip" and use.idx == 0:  # the bounds of a narrow range
                waiting.append((node.outputs[0], floats))
            elif _moves_integers(node, integers):
                node.replace_input_with(use.idx, floats)
                if node not in passed:
                    passed[node] = affine
                    waiting += [(value, value) for value in _moved(node, floats)]
                _require_same(quantize, affine, passed[node], node)
            else:
                _refuse(quantize, node, "computes with")
    return quantize.outputs[0].is_graph_output()


def _replace(node: ir.Node, value: ir.Value) -> None:
    """Let all that reads a node read `value` instead.

    A body must put out a value of its own.
    """
    output, graph = node.outputs[0], node.graph
    if output.is_graph_output() and value.graph is not graph:
        assert isinstance(graph, ir.Graph)
        identity = ir.node("Identity", [value], name=f"{node.name}/Identity")
        identity.outputs[0].name = f"{output.name}/float"
        identity.outputs[0].type, identity.outputs[0].shape = value.type, value.shape
        graph.insert_before(node, identity)
        value = identity.outputs[0]
    ir.convenience.replace_all_uses_with(output, value, replace_graph_outputs=True)


def _moves_integers(node: ir.Node, integers: ir.Value) -> bool:
    sources = grid_inputs(node)
    # Zero is another integer on each grid.
    return sources is not None and integers in sources and node.op_type not in ("Relu", "Pad")


def _moved(node: ir.Node, floats: ir.Value) -> list[ir.Value]:
    """The outputs of a node that moves integers, made floats."""
    outputs = list(node.outputs) if node.op_type == "Split" else list(node.outputs[:1])
    for output in outputs:
        output.type = floats.type
        if output.is_graph_output():
            _refuse(node, node, "puts out")
    return outputs


def _require_same(quantize: ir.Node, affine: Affine, other: Affine, node: ir.Node) -> None:
    if not affine.same_as(other):
        what = f"{node.name!r} reads integers of {quantize.name!r} with other factors"
        fail("QF230", what, where=str(node.name), fix="write the file anew")


def _refuse(quantize: ir.Node, node: ir.Node, does: str) -> NoReturn:
    fail(
        "QF230",
        f"{node.op_type} {node.name!r} {does} the integers of {quantize.name!r}",
        where=str(node.name),
        fix="quantize in QDQ format, where operators compute on floats",
    )
