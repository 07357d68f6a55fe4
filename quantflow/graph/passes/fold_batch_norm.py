"""BatchNormalization, folded into the layer before it or written as Mul and Add.

At inference it is ``y = x s + t`` with ``s = scale / sqrt(var + epsilon)`` and ``t = B - mean s``
for every channel (ONNX BatchNormalization-15). Everything is computed in float64 and rounded to
float32 once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.weight_file import array_of, derived
from quantflow.graph.edit import constant, give_constant, replace_node

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Affine:
    """``y = x scale + shift``, both ``(C,)``."""

    scale: Doubles
    shift: Doubles


def fold_batch_norm(model: ir.Model) -> int:
    """Fold every BatchNormalization with constant parameters; returns those that became Mul, Add.

    One is folded into a Conv, ConvTranspose or Gemm of constant weight whose result nothing else
    reads. One whose input has no known rank is left alone.
    """
    rewritten = 0
    for norm in [node for node in model.graph if node.op_type == "BatchNormalization"]:
        affine = _affine(norm)
        if affine is None:
            continue
        layer = norm.inputs[0].producer() if norm.inputs[0] is not None else None
        if layer is not None and _absorbs(layer):
            _fold(norm, layer, affine)
        else:
            rewritten += _write_out(norm, affine)
    return rewritten


def _affine(norm: ir.Node) -> _Affine | None:
    tensors = [constant(value) for value in norm.inputs[1:5]]
    trains = norm.attributes.get_int("training_mode", 0)
    if trains or any(x.uses() or x.is_graph_output() for x in norm.outputs[1:]):
        return None
    parameters = [array_of(x).astype(np.float64) for x in tensors if x is not None]
    if len(parameters) < 4:
        return None
    weight, bias, mean, variance = parameters
    scale = weight / np.sqrt(variance + norm.attributes.get_float("epsilon", 1e-5))
    return _Affine(scale, bias - mean * scale)


def _absorbs(layer: ir.Node) -> bool:
    if layer.op_type not in ("Conv", "ConvTranspose", "Gemm") or len(layer.outputs) != 1:
        return False
    result = layer.outputs[0]
    constants = [constant(value) for value in layer.inputs[1:] if value is not None]
    if any(tensor is None or not _one_row(tensor) for tensor in constants[1:]):
        return False
    return constants[0] is not None and len(result.uses()) == 1 and not result.is_graph_output()


def _one_row(bias: ir.TensorProtocol) -> bool:
    """Whether a bias is the same for all rows of a Gemm."""
    return prod(bias.shape.numpy()[:-1]) == 1


def _fold(norm: ir.Node, layer: ir.Node, affine: _Affine) -> None:
    attributes = layer.attributes
    alpha, beta = attributes.get_float("alpha", 1.0), attributes.get_float("beta", 1.0)
    weight = constant(layer.inputs[1])
    assert weight is not None
    factor = alpha * _along_weight(layer, weight.shape.numpy(), affine.scale)

    def scaled() -> NDArray[Any]:
        return (array_of(weight) * factor).astype(np.float32)

    bias = constant((*layer.inputs, None)[2])
    shift = affine.shift
    if bias is not None:
        old = np.broadcast_to(array_of(bias).astype(np.float64).reshape(-1), shift.shape)
        shift = shift + beta * old * affine.scale
    attributes.pop("alpha", None)
    attributes.pop("beta", None)
    name = f"{layer.name}.weight"
    give_constant(layer, 1, derived(name, scaled, ir.DataType.FLOAT, weight.shape.numpy()))
    layer.resize_inputs(3)
    give_constant(layer, 2, ir.tensor(shift.astype(np.float32), name=f"{layer.name}.bias"))
    result, graph = norm.outputs[0], norm.graph
    assert isinstance(graph, ir.Graph)
    ir.convenience.replace_nodes_and_values(graph, norm, [norm], [], [result], [layer.outputs[0]])


def _along_weight(layer: ir.Node, shape: Sequence[int], scale: Doubles) -> Doubles:
    """The factors in a shape that broadcasts along the output channels of the weight."""
    if layer.op_type == "Gemm":
        return scale[:, None] if layer.attributes.get_int("transB", 0) else scale[None, :]
    ones = (1,) * (len(shape) - 2)
    if layer.op_type == "Conv":
        return scale.reshape(-1, 1, *ones)
    groups = layer.attributes.get_int("group", 1)
    rows = np.repeat(scale.reshape(groups, -1), shape[0] // groups, axis=0)
    return rows.reshape(*rows.shape, *ones)


def _write_out(norm: ir.Node, affine: _Affine) -> int:
    """Write the node as a Mul and an Add, where the rank of its input is known."""
    x = norm.inputs[0]
    if x is None or x.shape is None:
        return 0
    ones = (1,) * max(x.shape.rank() - 2, 0)
    tape = ir.tape.Tape()

    def parameter(values: Doubles, name: str) -> ir.Value:
        array = values.astype(np.float32).reshape(-1, *ones)
        return tape.initializer(ir.tensor(array), name=f"{norm.name}/{name}")

    product = tape.op("Mul", [x, parameter(affine.scale, "scale")])
    result = tape.op("Add", [product, parameter(affine.shift, "shift")])
    norm.resize_outputs(1)
    replace_node(norm, tape, result)
    return 1
