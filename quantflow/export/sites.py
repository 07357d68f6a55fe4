"""Where the INT8 layers sit in a graph: what deploy model and QDQ twin both start from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.model_record import Layer, ModelRecord
from quantflow.errors import fail
from quantflow.export.additions import Additions
from quantflow.export.factors import layer_constants
from quantflow.export.integers import LayerIntegers, layer_integers
from quantflow.graph.edit import nodes_by_name
from quantflow.numerics.quantize import QuantParams


@dataclass(frozen=True, slots=True)
class Site:
    """One INT8 layer in a model that is being rewritten.

    Attributes:
        layer: the layer.
        params: scale and zero point of its input.
        integers: its constants.
        node: the MatMul or Gemm.
        bias_node: the Add behind a MatMul, or None.
    """

    layer: Layer
    params: QuantParams
    integers: LayerIntegers
    node: ir.Node
    bias_node: ir.Node | None

    @property
    def last(self) -> ir.Node:
        """The node that writes the layer's output."""
        return self.bias_node or self.node


def int8_sites(model: ir.Model, record: ModelRecord, factors: Sequence[LayerFactors]) -> list[Site]:
    """The INT8 layers of `model`, in graph order.

    Raises:
        QuantflowError: QF543 when model and record do not fit together.
    """
    nodes = nodes_by_name(model)
    entries = {entry.layer: entry for entry in factors}
    sites = [
        _site(model, layer, entries[layer.name], nodes)
        for layer in record.layers
        if entries[layer.name].precision == "int8"
    ]
    position = {node: index for index, node in enumerate(model.graph)}
    return sorted(sites, key=lambda site: position[site.node])


def _site(model: ir.Model, layer: Layer, entry: LayerFactors, nodes: dict[str, ir.Node]) -> Site:
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
    weight, bias = layer_constants(model, layer)
    scale_w = np.array(entry.scale_w, np.float32)
    return Site(
        layer=layer,
        params=QuantParams(entry.scale_d, entry.offset_d),
        integers=layer_integers(weight, bias, entry.scale_d, scale_w),
        node=node,
        bias_node=bias_node,
    )


def _fits(layer: Layer, node: ir.Node, bias_node: ir.Node | None) -> bool:
    inputs = [value.name if value else None for value in node.inputs]
    product = node.outputs[0]
    if (
        inputs[:2] != [layer.input, layer.weight]
        or node.op_type not in ("MatMul", "Gemm")
        or (bias_node or node).outputs[0].name != layer.output
    ):
        return False
    if bias_node is None:
        return layer.bias_node is None and inputs[2:] == ([layer.bias] if layer.bias else [])
    added = {value.name if value else None for value in bias_node.inputs}
    alone = len(product.uses()) == 1 and not product.is_graph_output()
    return alone and added == {product.name, layer.bias}


def int8_weight(site: Site, additions: Additions) -> ir.Value:
    """The layer's int8 weight; layers that share a weight and its scales share this as well."""
    key = (site.layer.weight, site.integers.weight_scale.tobytes())
    return additions.shared(f"{site.layer.name}/weight_int8", key, site.integers.weight)


def drop_float_constants(model: ir.Model, sites: Iterable[Site]) -> None:
    """Remove the float weights and biases that no float layer, or anything else, reads."""
    for name in {name for site in sites for name in (site.layer.weight, site.layer.bias)}:
        value = model.graph.initializers.get(name or "")
        if value is not None and not value.uses() and not value.is_graph_output():
            del model.graph.initializers[name or ""]
