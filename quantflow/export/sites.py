"""Where the INT8 layers sit in a graph: what deploy model and QDQ twin both start from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.model_record import Layer, ModelRecord
from quantflow.errors import fail
from quantflow.export.factors import layer_constants
from quantflow.export.int8_weights import Int8Weights, LayerWeights
from quantflow.export.integers import LayerIntegers, bias_steps, deq_scales, layer_integers
from quantflow.graph.edit import nodes_by_name
from quantflow.graph.kinds.table import groups_of, weight_from_matrix
from quantflow.numerics.quantize import QuantParams


@dataclass(frozen=True, slots=True)
class Site:
    """One INT8 layer in a model that is being rewritten.

    Attributes:
        layer: the layer.
        inputs: scale and zero point of its input and, for a product of two activations, of its
            second input.
        integers: its constants.
        weight: its int8 weight in the shape of the float one, or None.
        node: the node that multiplies.
        bias_node: the Add behind a MatMul, or None.
    """

    layer: Layer
    inputs: tuple[QuantParams, ...]
    integers: LayerIntegers
    weight: NDArray[np.int8] | None
    node: ir.Node
    bias_node: ir.Node | None

    @property
    def last(self) -> ir.Node:
        """The node that writes the layer's output."""
        return self.bias_node or self.node


def int8_sites(
    model: ir.Model, record: ModelRecord, factors: Sequence[LayerFactors], weights: Int8Weights
) -> list[Site]:
    """The INT8 layers of `model`, in graph order.

    Raises:
        QuantflowError: QF543 when model and record do not fit together.
    """
    nodes = nodes_by_name(model)
    entries = {entry.layer: entry for entry in factors}
    sites = [
        _site(model, layer, entries[layer.name], nodes, weights.get(layer.name))
        for layer in record.layers
        if entries[layer.name].precision == "int8"
    ]
    position = {node: index for index, node in enumerate(model.graph)}
    return sorted(sites, key=lambda site: position[site.node])


def _site(
    model: ir.Model,
    layer: Layer,
    entry: LayerFactors,
    nodes: dict[str, ir.Node],
    given: LayerWeights | None,
) -> Site:
    node = nodes.get(layer.node)
    bias_node = nodes.get(layer.bias_node) if layer.bias_node else None
    if node is None or not _fits(layer, node, bias_node):
        fail(
            "QF543",
            "the model's graph is not the one that its record describes",
            where=f"layer {layer.name}",
            fix="rerun `quantflow prepare` and what follows it",
        )
    assert entry.scale_d is not None and entry.offset_d is not None
    scale_w = np.array(entry.scale_w, np.float32)
    integers = _integers(model, layer, entry.scale_d, scale_w, given)
    inputs = [QuantParams(entry.scale_d, entry.offset_d)]
    if layer.second_input:
        inputs.append(QuantParams(entry.scale_w[0], 0))
    return Site(
        layer=layer,
        inputs=tuple(inputs),
        integers=integers,
        weight=_own_form(model, layer, integers.weight) if layer.weight else None,
        node=node,
        bias_node=bias_node,
    )


def _integers(
    model: ir.Model,
    layer: Layer,
    scale_d: float,
    scale_w: NDArray[np.float32],
    given: LayerWeights | None,
) -> LayerIntegers:
    if given is None:
        return layer_integers(*layer_constants(model, layer), scale_d, scale_w)
    if not np.array_equal(given.scales, scale_w):
        fail(
            "QF543",
            "the rounded weight has other scales than the layer",
            where=f"layer {layer.name}",
            fix="rerun `quantflow optimize`",
        )
    bias = given.bias
    steps = None if bias is None else bias_steps(bias, scale_d, scale_w).astype(np.int32)
    return LayerIntegers(given.weight, steps, scale_w, deq_scales(scale_d, scale_w))


def _own_form(model: ir.Model, layer: Layer, matrix: NDArray[np.int8]) -> NDArray[np.int8]:
    shape = model.graph.initializers[layer.weight].shape
    assert shape is not None
    return weight_from_matrix(matrix, tuple(shape.numpy()), layer.op_type, groups_of(layer))


def _fits(layer: Layer, node: ir.Node, bias_node: ir.Node | None) -> bool:
    inputs = [value.name if value else None for value in node.inputs]
    operands = [name for name in (layer.input, layer.weight or layer.second_input) if name]
    count, product = len(operands), node.outputs[0]
    if (
        inputs[:count] != operands
        or node.op_type != layer.op_type
        or (bias_node or node).outputs[0].name != layer.output
    ):
        return False
    if bias_node is None:
        return layer.bias_node is None and inputs[count:] == ([layer.bias] if layer.bias else [])
    added = {value.name if value else None for value in bias_node.inputs}
    alone = len(product.uses()) == 1 and not product.is_graph_output()
    return alone and added == {product.name, layer.bias}


def drop_float_constants(model: ir.Model, sites: Iterable[Site]) -> None:
    """Remove the float weights and biases that no float layer, or anything else, reads."""
    for name in {name for site in sites for name in (site.layer.weight, site.layer.bias)}:
        value = model.graph.initializers.get(name or "")
        if value is not None and not value.uses() and not value.is_graph_output():
            del model.graph.initializers[name or ""]
