"""The name of a layer's int32 result stays with it, whatever nodes come to stand before it."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir


def insert_behind(node: ir.Node, nodes: Sequence[ir.Node]) -> None:
    """Put `nodes` behind `node`: the last of them is what all others read, under the old name."""
    old, new = node.outputs[0], nodes[-1].outputs[0]
    inserted = set(nodes)
    for use in list(old.uses()):
        if use.node not in inserted:
            use.node.replace_input_with(use.idx, new)
    old.name, new.name = new.name, old.name
    assert isinstance(node.graph, ir.Graph)
    node.graph.insert_after(node, nodes)
