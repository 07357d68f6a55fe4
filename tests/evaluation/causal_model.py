"""A causal language model of a few operators: logits of a token from the mean of those so far."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from onnx import TensorProto, helper, numpy_helper

from quantflow.artifacts.model_record import ModelRecord, TensorInfo

WORDS, WIDTH, BATCH, LENGTH = 11, 5, 3, 6

_RNG = np.random.default_rng(0)
TABLE = _RNG.normal(size=(WORDS, WIDTH)).astype(np.float32)
HEAD = _RNG.normal(size=(WIDTH, WORDS)).astype(np.float32)
MEAN = np.tril(np.ones((LENGTH, LENGTH))) / np.arange(1, LENGTH + 1)[:, None]


def model() -> ir.Model:
    """``(BATCH, LENGTH)`` ids to ``(BATCH, LENGTH, WORDS)`` logits."""
    arrays = {"table": TABLE, "mean": MEAN.astype(np.float32), "head": HEAD}
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["e"]),
        helper.make_node("MatMul", ["mean", "e"], ["m"]),  # row t: the mean of rows up to t
        helper.make_node("MatMul", ["m", "head"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "causal",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [BATCH, LENGTH])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [BATCH, LENGTH, WORDS])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    return ir.from_proto(helper.make_model(graph, opset_imports=opset, ir_version=9))


def record(*extra: TensorInfo) -> ModelRecord:
    shape = ("batch", "length")
    inputs = (TensorInfo(name="input_ids", dtype="int64", shape=shape), *extra)
    logits = TensorInfo(name="logits", dtype="float32", shape=(*shape, WORDS))
    return ModelRecord(opset=17, inputs=inputs, outputs=(logits,), layers=(), groups=(), padding=())


def log_chances(tokens: Any) -> Any:
    """Log of the chance of every word after `tokens`, in float64 numpy."""
    logits = TABLE[list(tokens)].astype(np.float64).mean(axis=0) @ HEAD.astype(np.float64)
    return logits - np.log(np.exp(logits).sum())
