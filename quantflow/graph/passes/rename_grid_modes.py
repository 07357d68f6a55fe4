"""GridSample with the names that its modes had before opset 20."""

from __future__ import annotations

import onnx_ir as ir

_OLD = {"linear": "bilinear", "cubic": "bicubic"}


def rename_grid_modes(model: ir.Model) -> int:
    """Call the modes of GridSample over images as before; over volumes, they had none."""
    changed = 0
    for node in model.graph.all_nodes():
        x = node.inputs[0] if node.op_type == "GridSample" else None
        if x is None or x.shape is None or x.shape.rank() != 4:
            continue
        # What is not said is linear, under either name.
        mode = node.attributes.get_string("mode", "linear")
        if mode in _OLD:
            node.attributes["mode"] = ir.AttrString("mode", _OLD[mode])
            changed += 1
    return changed
