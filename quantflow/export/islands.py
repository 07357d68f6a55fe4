"""fp32 islands of the float model, carried over to the deploy model.

An INT8 layer that is an island has no float node of its own any more: its float side is the
AscendQuant that reads its input and the AscendDequant that writes its output. Those two are what
must stay in float32. An AscendQuant that several layers share is one node, so that one island among
them decides for all.
"""

from __future__ import annotations

import onnx_ir as ir

from quantflow.export.deployed import deployed_layers


def deploy_islands(deploy: ir.Model, islands: frozenset[str]) -> frozenset[str]:
    """The nodes of a deploy model that run in fp32.

    Args:
        deploy: a deploy model, or a float model, whose islands are its own.
        islands: names of nodes of the float model (or of AscendQuant and AscendDequant nodes).

    Returns:
        Those of the islands that exist and compute in float, and the AscendQuant and AscendDequant
        of every INT8 layer among the islands.
    """
    layers = deployed_layers(deploy)
    integer = {node.name for layer in layers for node in (layer.product, layer.add) if node}
    kept = {node.name or "" for node in deploy.graph.all_nodes() if node.name not in integer}
    found = islands & kept
    for layer in layers:
        nodes = {layer.product.name, layer.add.name if layer.add else None}
        if nodes & islands:
            sides = [*(entry.quant for entry in layer.inputs), layer.dequant]
            found |= {node.name or "" for node in sides}
    return frozenset(found)
