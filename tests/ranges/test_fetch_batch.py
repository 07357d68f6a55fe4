"""The batch of a pass that fetches tensors keeps them within bounds."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from quantflow.ranges import fetch_batch as module
from quantflow.ranges.fetch_batch import fetch_batch
from tests.graph.models import build


def _model(batch: str) -> ir.Model:
    """``t`` has 24 values a position, ``u`` four."""
    return ir.from_proto(
        build(
            f"(float[{batch},length,4] x) => (float[{batch},length,4] u) "
            "{ t = MatMul(x, w) u = MatMul(t, v) }",
            {"w": np.ones((4, 24), np.float32), "v": np.ones((24, 4), np.float32)},
        )
    )


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(10**9, 8), (4 * 28 * 10 * 8, 8), (4 * 28 * 10 * 8 - 1, 7), (4 * 28 * 10 * 3, 3), (1, 1)],
)
def test_the_tensors_of_a_batch_fit(
    limit: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FETCHED_BYTES", limit)
    assert fetch_batch(_model("batch"), ["t", "u"], {"length": 10}, 8) == expected


def test_a_fixed_batch_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FETCHED_BYTES", 1)
    assert fetch_batch(_model("6"), ["t", "u"], {"length": 10}, 6) == 6
