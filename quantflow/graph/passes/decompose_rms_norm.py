"""RMSNormalization (opset 23) in elementary operators, since the op table has none."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from quantflow.graph.edit import replace_node


def decompose_rms_norm(model: ir.Model) -> int:
    """Rewrite RMSNormalization as ``x / sqrt(mean(x^2) + eps) * scale`` (ONNX 23).

    The mean runs from `axis` to the last; nodes where a positive one meets an unknown rank are left
    alone.
    """
    nodes = [node for node in model.graph.all_nodes() if node.op_type == "RMSNormalization"]
    changed = 0
    for node in nodes:
        mean_over = _axes(node)
        if mean_over is None:
            continue
        tape = ir.tape.Tape()
        x, scale = node.inputs[0], node.inputs[1]
        epsilon = ir.tensor(np.float32(node.attributes.get_float("epsilon", 1e-5)))
        axes = tape.initializer(ir.tensor(mean_over), name=f"{node.name}/axes")
        small = tape.initializer(epsilon, name=f"{node.name}/epsilon")
        mean = tape.op("ReduceMean", [tape.op("Mul", [x, x]), axes], {"keepdims": 1})
        root = tape.op("Sqrt", [tape.op("Add", [mean, small])])
        replace_node(node, tape, tape.op("Mul", [tape.op("Div", [x, root]), scale]))
        changed += 1
    return changed


def _axes(node: ir.Node) -> np.ndarray | None:
    axis, x = node.attributes.get_int("axis", -1), node.inputs[0]
    if axis < 0:
        return np.arange(axis, 0, dtype=np.int64)
    if x is None or x.shape is None:
        return None
    return np.arange(axis, x.shape.rank(), dtype=np.int64)
