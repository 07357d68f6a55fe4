"""A model of sequences that tests compute by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from quantflow.artifacts.model_record import ModelRecord, TensorInfo

Sample = dict[str, Any]


def record(*, mask: bool = True, length: int | str = "length", **outputs: Any) -> ModelRecord:
    inputs = [TensorInfo(name="ids", dtype="int64", shape=("batch", length))]
    if mask:
        inputs.append(TensorInfo(name="m", dtype="int64", shape=("batch", length), mask=True))
    return ModelRecord(
        opset=18,
        inputs=tuple(inputs),
        outputs=tuple(
            TensorInfo(name=name, dtype="float32", shape=shape) for name, shape in outputs.items()
        ),
        layers=(),
        groups=(),
        padding=(),
    )


DIMS = {"batch": 3, "length": 6}
TOKENS = {"tokens": ("batch", "length", 2)}


def sample(ids: Iterable[int], mask: Iterable[int] | None = None) -> Sample:
    array = np.array(list(ids), np.int64)
    return {
        "ids": array,
        "m": np.ones_like(array) if mask is None else np.array(list(mask), np.int64),
    }


class Model:
    """A model of the ids: every position gives (id, id + 0.5), the sentence their sum."""

    def __init__(self, offset: float = 0.0) -> None:
        self.offset = offset
        self.feeds: list[dict[str, Any]] = []

    @property
    def outputs(self) -> tuple[str, ...]:
        return ("tokens", "pooled", "square", "label")

    def run(self, feeds: Any) -> dict[str, Any]:
        self.feeds.append({name: array.copy() for name, array in feeds.items()})
        ids = feeds["ids"].astype(np.float32) + np.float32(self.offset)
        mask = feeds.get("m", np.ones_like(feeds["ids"]))
        return {
            "tokens": np.stack([ids, ids + np.float32(0.5)], -1),
            "pooled": np.where(mask, ids, 0).sum(1, keepdims=True).repeat(6, 1),
            "square": ids[:, :, None] * ids[:, None, :],
            "label": feeds["ids"][:, 0],
        }
