"""Hand-written models in Ascend's dialect, each rule's smallest departure made by an edit."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def deq_scale(scales: Any) -> np.ndarray:
    """float32 bits in the low half of uint64, by struct layout rather than by numpy view."""
    raw = np.asarray(scales, "<f4").tobytes()
    words = [int.from_bytes(raw[i : i + 4], "little") for i in range(0, len(raw), 4)]
    return np.array(words, np.uint64)


def quant(name: str, source: str, target: str, **changes: Any) -> onnx.NodeProto:
    attributes: dict[str, Any] = {"scale": 10.0, "offset": -3.0, "dst_type": "INT8"} | changes
    kept = {key: value for key, value in attributes.items() if value is not None}
    return helper.make_node("AscendQuant", [source], [target], name=name, **kept)


def deploy_model(opset: int = 18, **initializers: np.ndarray) -> onnx.ModelProto:
    """x (2, 4) -> MatMul + bias and Gemm on one AscendQuant -> y, z, both (2, 3)."""
    arrays = {
        "w": np.ones((4, 3), np.int8),
        "b": np.array([1, -2, 3], np.int32),
        "s": deq_scale([0.5, 0.25, 0.125]),
        "w2": np.ones((4, 3), np.int8),
        "b2": np.array([1, 2, 3], np.int32),
        "s2": deq_scale([0.5]),
    } | initializers
    nodes = [
        quant("q", "x", "xq"),
        helper.make_node("MatMul", ["xq", "w"], ["m"], name="mm"),
        helper.make_node("Add", ["m", "b"], ["mb"], name="add"),
        helper.make_node("AscendDequant", ["mb", "s"], ["y"], name="dq", dtype=0),
        helper.make_node("Gemm", ["xq", "w2", "b2"], ["g"], name="gemm"),
        helper.make_node("AscendDequant", ["g", "s2"], ["r"], name="dq2", dtype=0),
        helper.make_node("Relu", ["r"], ["z"], name="relu"),
    ]
    return helper.make_model(
        helper.make_graph(
            nodes,
            "deploy",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "yz"],
            [numpy_helper.from_array(array, name) for name, array in arrays.items()],
        ),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=8,
    )


def node(model: onnx.ModelProto, name: str) -> onnx.NodeProto:
    return next(node for node in model.graph.node if node.name == name)
