"""Resize as it was before opset 11, which could not say how it maps coordinates.

Output position i was read at ``i / scale``, which is called asymmetric since; what newer operators
do when nothing is said is another mapping. Nearest values were those before that position where an
axis grows, and those after it where it shrinks, as onnxruntime has it.
"""

from __future__ import annotations

import onnx_ir as ir

from quantflow.graph.edit import constant

_MAPPING = "coordinate_transformation_mode"


def old_resize_modes(model: ir.Model) -> int:
    """Say of every Resize that was written before opset 11 what it meant then, in place.

    Args:
        model: just raised from an older opset; of a Resize that shrinks some axes and enlarges
            others, or by factors that are computed, nearest values are taken as if it enlarged all.
    """
    nodes = [node for node in model.graph.all_nodes() if node.op_type == "Resize"]
    for node in nodes:
        node.attributes[_MAPPING] = ir.AttrString(_MAPPING, "asymmetric")
        if node.attributes.get_string("mode", "nearest") == "nearest":
            rounding = "ceil" if _shrinks(node) else "floor"
            node.attributes["nearest_mode"] = ir.AttrString("nearest_mode", rounding)
    return len(nodes)


def _shrinks(node: ir.Node) -> bool:
    scales = constant(node.inputs[2])
    return scales is not None and bool((scales.numpy() <= 1).all())
