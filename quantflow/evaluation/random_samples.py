"""Inputs for a model of which no data is at hand: of the right shape and type, no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.model_record import ModelRecord, TensorInfo
from quantflow.graph.edit import constant
from quantflow.runtime.runner import Feeds

SMALL = 2
"""Integers of which nothing is known are 0 or 1."""

_CARRIERS = {"Cast", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Expand", "Flatten"}


def random_samples(
    model: ir.Model, record: ModelRecord, dims: Mapping[str, int], count: int, seed: int = 0
) -> list[Feeds]:
    """Draw samples that fill a bucket.

    Floats are standard normal. An integer that picks rows of a table lies within it. A mask lets
    everything pass.

    Args:
        model: the canonical model.
        record: its inputs.
        dims: sizes of the bucket.
        count: number of samples.
        seed: of the generator.

    Returns:
        Arrays without the batch axis, by input.
    """
    rng = np.random.default_rng(seed)
    rows = {str(value.name): _rows(value) for value in model.graph.inputs}
    return [
        {info.name: _draw(info, dims, rows[info.name], rng) for info in record.inputs}
        for _ in range(count)
    ]


def _draw(
    info: TensorInfo, dims: Mapping[str, int], rows: int, rng: np.random.Generator
) -> NDArray[Any]:
    shape = tuple(d if isinstance(d, int) else dims[d] for d in info.shape[1:])
    kind = np.dtype(info.dtype)
    if info.mask:
        return np.ones(shape, kind)
    if np.issubdtype(kind, np.floating):
        return rng.standard_normal(shape).astype(kind)
    if kind.kind in "iu" and kind.itemsize == 1:
        return rng.integers(0, 256, shape).astype(np.uint8).view(kind)
    return rng.integers(0, rows, shape).astype(kind)


def _rows(value: ir.Value) -> int:
    """Rows of the smallest table that an input's integers pick from."""
    waiting, seen, found = [value], set[ir.Value](), list[int]()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        for use in current.uses():
            table = constant(use.node.inputs[0])
            if use.node.op_type == "Gather" and use.idx == 1 and table is not None:
                found.append(table.shape.numpy()[use.node.attributes.get_int("axis", 0)])
            elif use.node.op_type in _CARRIERS:
                waiting.append(use.node.outputs[0])
    return max(min(found, default=SMALL), 1)
