"""A stand-in for ais_bench: InferSession as documented, on numpy."""

from __future__ import annotations

import enum
import os
from types import SimpleNamespace
from typing import Any

import numpy as np
from standin_om import compute, read_om


class dtype(enum.Enum):
    float32 = 0
    float16 = 1
    int32 = 3
    int64 = 9

    def __str__(self) -> str:  # as aclruntime's enumeration prints itself
        return f"dtype.{self.name}"


def _node(entry: list[Any]) -> SimpleNamespace:
    name, kind, shape = entry
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    return SimpleNamespace(name=name, datatype=dtype[kind], shape=shape, size=size, realsize=size)


class InferSession:
    """Fails where STANDIN_AIS_FAIL names the call."""

    open = 0

    def __init__(self, device_id: int, model_path: str) -> None:
        self._may_fail("InferSession")
        self.content, self.device, self.times = read_om(model_path), device_id, list[Any]()
        InferSession.open += 1

    def _may_fail(self, call: str) -> None:
        if os.environ.get("STANDIN_AIS_FAIL") == call:
            raise RuntimeError(f"{call} failed on the device")

    def get_inputs(self) -> list[SimpleNamespace]:
        self._may_fail("get_inputs")
        return [_node(entry) for entry in self.content["inputs"]]

    def get_outputs(self) -> list[SimpleNamespace]:
        return [_node(entry) for entry in self.content["outputs"]]

    def infer(self, feeds: list[np.ndarray], mode: str) -> list[np.ndarray]:
        assert mode == "static"
        self._may_fail("infer")
        pairs = os.environ.get("STANDIN_AIS_PAIRS")
        self.times.append((100.0, 101.5) if pairs else 1.25)
        return compute(self.content, feeds)

    def summary(self) -> SimpleNamespace:
        return SimpleNamespace(exec_time_list=self.times)

    def free_resource(self) -> None:
        InferSession.open -= 1
        self._may_fail("free_resource")
