"""Balancing queries against keys, which matters where a weight has one scale for all its columns.

The product of queries and keys stays the same when a channel of the queries is divided, and that of
the keys multiplied, by a factor. It is chosen so that the columns of both weights reach equally far
(cross-layer equalization, Nagel et al. 2019).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.graph.edit import constant, nodes_by_name, static_shape
from quantflow.recovery.fold import find_folds
from quantflow.recovery.rescale import apply_fold, can_apply, constant_of
from quantflow.recovery.scales import MOST
from quantflow.recovery.walk import Edit, Fold

LAYERS = ("MatMul", "Gemm")


def balance(model: ir.Model, static: ir.Model, wanted: Callable[[str], bool]) -> list[str]:
    """Balance all pairs of queries and keys, in place.

    Args:
        model: canonical.
        static: a bucket of it, which tells shapes.
        wanted: whether it matters to the layer of a node.

    Returns:
        Names of the products that are balanced.
    """
    done, nodes = list[str](), nodes_by_name(model)
    for name, left, right in _products(static):
        layers = [x for fold in (left, right) for x in fold.edits if _is_weight(nodes, x)]
        if not (can_apply(model, left) and can_apply(model, right)):
            continue
        if len(layers) != 2 or not any(wanted(edit.node) for edit in layers):
            continue
        reach = [_reach(constant_of(nodes[x.node], x.index), x.ids, left.rest) for x in layers]
        live = (reach[0] > 0) & (reach[1] > 0)
        scale = np.ones(len(live))
        scale[live] = np.clip(np.sqrt(reach[0][live] / reach[1][live]), 1 / MOST, MOST)
        by_channel = scale[left.classes].astype(np.float32)
        apply_fold(model, left, by_channel)
        apply_fold(model, right, (1 / by_channel).astype(np.float32))
        done.append(name)
    return done


def _products(static: ir.Model) -> Iterator[tuple[str, Fold, Fold]]:
    """MatMuls of two activations whose common channels can be scaled on both sides."""
    for node in static.graph:
        left, right = (*node.inputs, None, None)[:2]
        if node.op_type != "MatMul" or left is None or right is None:
            continue
        shape, other = static_shape(left) or (), static_shape(right) or ()
        if constant(left) is not None or constant(right) is not None:
            continue
        if len(shape) < 3 or len(shape) != len(other) or shape[1:-2] != other[1:-2]:
            continue
        # A class for each channel of each head, the first axis being the batch.
        heads = (1, *shape[1:-2])
        ids = np.arange(int(np.prod(heads)) * shape[-1], dtype=np.int64)
        sides = [
            (left, ids.reshape(*heads, 1, shape[-1])),
            (right, ids.reshape(*heads, shape[-1], 1)),
        ]
        folds = find_folds(sides, frozenset({str(node.name)}))
        if folds is not None:
            yield str(node.name), folds[0], folds[1]


def _is_weight(nodes: dict[str, ir.Node], edit: Edit) -> bool:
    return edit.index == 1 and nodes[edit.node].op_type in LAYERS


def _reach(
    weight: NDArray[np.float32], ids: NDArray[np.int64], classes: int
) -> NDArray[np.float64]:
    """Largest magnitude of the columns of every class, of which there are `classes`."""
    found = np.zeros(classes + 1)
    columns = np.abs(weight).max(axis=0).astype(np.float64)
    np.maximum.at(found, np.broadcast_to(ids, (1, weight.shape[1])).ravel(), columns)
    return found[:classes]
