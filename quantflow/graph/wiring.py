"""Whether every value of a graph that is read is given by something."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
from onnx_ir.passes.common import TopologicalSortPass

from quantflow.artifacts.array_files import shortened
from quantflow.errors import fail


def check_wiring(model: ir.Model, path: Path) -> None:
    """Raise QF201 for values that nothing gives, and for cycles; sort the nodes."""
    read = [value for node in model.graph for value in node.inputs if value is not None]
    for value in (*read, *model.graph.outputs):
        given = value.producer() or value.is_graph_input() or value.is_initializer()
        if not given:
            what = f"nothing in the model gives the value {shortened(repr(value.name))}"
            fail("QF201", what, where=str(path), fix="export the model again")
    try:
        TopologicalSortPass()(model)
    except ValueError as error:
        what = f"not a readable ONNX model: {shortened(str(error))}"
        fail("QF201", what, where=str(path), fix="export the model again")
