"""What holds weights and is no layer: the bodies of If, and recurrent operators."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from quantflow.artifacts.export_record import FloatNode
from quantflow.graph.edit import with_bodies
from quantflow.graph.names import LAYER_OPS

_RECURRENT: Final = ("LSTM", "GRU", "RNN")


def float_nodes(model: ir.Model) -> list[FloatNode]:
    """The nodes with weights that no plan can make INT8, and why, in graph order."""
    found = list[FloatNode]()
    for node in model.graph:
        place = f"in a branch of the If node {node.name!r}" if node.op_type == "If" else ""
        for inner in with_bodies(node):
            kind = inner.op_type
            reason = "a recurrent operator" if kind in _RECURRENT else place
            if reason and kind in (*_RECURRENT, *LAYER_OPS):
                found.append(FloatNode(node=str(inner.name), op_type=kind, reason=reason))
    return found
