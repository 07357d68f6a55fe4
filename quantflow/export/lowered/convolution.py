"""Conv and ConvTranspose of int8 as float convolutions that are exact.

The activations are integers in float32, less their zero point, and so are the weights. As long as
no sum of magnitudes exceeds 2^24, every partial sum is an integer that float32 holds, and the
result does not depend on the order of additions. A longer sum is cut into parts that are short
enough, each with the weights of its own terms and zeros elsewhere, and the parts are added in
int32. onnxruntime's ConvInteger gives the same numbers, but takes 2 to 80 times as long.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.export.additions import Additions
from quantflow.export.deployed import DeployedLayer
from quantflow.export.integers import farthest_step
from quantflow.export.lowered.accumulator import insert_behind
from quantflow.export.lowered.inputs import LoweredInputs
from quantflow.graph.edit import constant
from quantflow.graph.kinds.table import weight_from_matrix, weight_matrix

EXACT = 2**24
"""float32 holds every integer up to it."""


def to_exact_convolution(layer: DeployedLayer, inputs: LoweredInputs, additions: Additions) -> None:
    """Turn the node, in place, into float convolutions, and Casts and Adds in int32 behind it."""
    node, (entry,) = layer.product, layer.inputs
    weight, bias = constant(node.inputs[1]), (*node.inputs, None)[2]
    assert weight is not None
    steps = inputs.steps(entry)
    groups = node.attributes.get_int("group", 1)
    parts = exact_parts(weight.numpy(), node.op_type, groups, farthest_step(entry.zero_point))
    node.resize_inputs(2)
    node.replace_input_with(0, steps)
    behind = list[ir.Node]()
    total: ir.Value | None = None
    for index, part in enumerate(parts):
        values = additions.initializer(f"{node.name}/weight{index}", part.astype(np.float32))
        total = _add_part(node, values, index, total, behind, additions)
    assert total is not None
    if bias is not None:
        column = _column(node, bias, weight.shape.rank(), additions)
        behind.append(_integer_add(f"{node.name}/bias", [total, column], node, additions))
    node.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    insert_behind(node, behind)


def exact_parts(
    weight: NDArray[np.int8], op_type: str, groups: int, farthest: int
) -> Iterator[NDArray[np.int8]]:
    """Weights that add up to `weight`, each of whose sums float32 holds exactly.

    Args:
        weight: int8 weight in its own shape.
        op_type: ``Conv`` or ``ConvTranspose``.
        groups: number of groups.
        farthest: largest magnitude of an activation step.
    """
    matrix = weight_matrix(weight, op_type, groups)
    reach = np.abs(matrix.astype(np.int64)) * farthest
    if int(reach.sum(axis=0).max(initial=0)) <= EXACT:
        yield weight
        return
    sums = np.cumsum(reach, axis=0)
    start, before = 0, np.zeros_like(sums[0])
    while start < len(sums):
        within = (sums[start:] - before).max(axis=1) <= EXACT
        end = start + int(within.sum())
        part = np.zeros_like(matrix)
        part[start:end] = matrix[start:end]
        yield weight_from_matrix(part, weight.shape, op_type, groups)
        start, before = end, sums[end - 1]


def _add_part(
    node: ir.Node,
    weight: ir.Value,
    index: int,
    total: ir.Value | None,
    behind: list[ir.Node],
    additions: Additions,
) -> ir.Value:
    """Convolve with one part of the weight; returns the int32 sum of the parts so far."""
    product = node.outputs[0]
    if total is None:
        node.replace_input_with(1, weight)
    else:
        steps = node.inputs[0]
        assert steps is not None
        more = additions.node(
            f"{node.name}/part{index}", node.op_type, [steps, weight], ir.DataType.FLOAT,
            like=product, attributes=node.attributes.values(),
        )  # fmt: skip
        behind.append(more)
        product = more.outputs[0]
    cast = additions.node(
        f"{node.name}/Cast{index}", "Cast", [product], ir.DataType.INT32, like=product,
        attributes=[ir.AttrInt64("to", ir.DataType.INT32.value)],
    )  # fmt: skip
    behind.append(cast)
    if total is None:
        return cast.outputs[0]
    add = _integer_add(f"{node.name}/sum{index}", [total, cast.outputs[0]], node, additions)
    behind.append(add)
    return add.outputs[0]


def _integer_add(
    name: str, operands: list[ir.Value], node: ir.Node, additions: Additions
) -> ir.Node:
    return additions.node(name, "Add", operands, ir.DataType.INT32, like=node.outputs[0])


def _column(node: ir.Node, bias: ir.Value, rank: int, additions: Additions) -> ir.Value:
    """The bias in a shape that broadcasts along the channel axis."""
    tensor = constant(bias)
    assert tensor is not None
    column = tensor.numpy().reshape(-1, *(1,) * (rank - 2))
    return additions.initializer(f"{node.name}/bias_column", column)
