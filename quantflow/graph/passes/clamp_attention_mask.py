"""Attention masks whose fill value fp16 cannot hold.

Exporters fill masked positions with the most negative float32 or with minus infinity. In fp16 the
former is minus infinity too, and every tensor on the way to the softmax would look like an
overflow. Any fill far below the scores does the same: ``exp(-16384 + score)`` is exactly 0 in
float32 for every score below 16,000 or so.

A row that is masked throughout differs. With the lowest float32 it attended uniformly, with minus
infinity it was NaN (or 0, where the model guards against that); afterwards it attends by its
scores, as if nothing were masked. Such rows are those of padding, which nothing reads.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from quantflow.artifacts.weight_file import array_of
from quantflow.graph.edit import constant
from quantflow.numerics.rounding import FP16_MAX

MASK_FILL = 16384.0

_CARRIERS = {
    "Add", "Cast", "Concat", "Expand", "Gather", "Identity", "Max", "Min", "Mul", "Reshape",
    "Slice", "Squeeze", "Sub", "Transpose", "Unsqueeze", "Where",
}  # fmt: skip


def clamp_attention_mask(model: ir.Model) -> int:
    """Bring constants beyond fp16 that only feed a softmax to +-16384, but leave +Inf and NaN."""
    changed = 0
    for value in list(model.graph.initializers.values()):
        tensor = constant(value)
        if tensor is None or tensor.dtype != ir.DataType.FLOAT or tensor.size > 2**24:
            continue
        array = array_of(tensor)
        large = (np.abs(array) > FP16_MAX) & (array != np.inf)
        if large.any() and _feeds_only_softmax(value):
            clamped = np.where(large, np.sign(array) * np.float32(MASK_FILL), array)
            value.const_value = ir.tensor(clamped.astype(np.float32), name=value.name)
            changed += 1
    return changed


def _feeds_only_softmax(value: ir.Value) -> bool:
    """Whether every path from `value` reaches a Softmax through operators that carry a mask."""
    waiting, seen = [value], set[ir.Value]()
    found = False
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        if current.is_graph_output():
            return False
        for use in current.uses():
            if use.node.op_type in ("Softmax", "LogSoftmax"):
                found = True
            elif use.node.op_type in _CARRIERS:
                waiting.extend(use.node.outputs)
            else:
                return False
    return found
