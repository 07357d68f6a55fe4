"""Files that Paddle wrote: opset 11 and 12, denormal weights, variances beyond fp16, biases apart.

They come with `rapidocr-onnxruntime`, which `make models` installs.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest

from quantflow.graph.canonical import canonicalize
from quantflow.graph.from_onnx import read_onnx

from .models import assert_canonical, ops, run

SPEC = find_spec("rapidocr_onnxruntime")
FOLDER = Path(str(SPEC.origin)).parent / "models" if SPEC is not None else Path()

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SPEC is None, reason="rapidocr-onnxruntime is not installed"),
]


@pytest.mark.parametrize(
    ("name", "shape", "layers"),
    [
        ("ch_PP-OCRv4_det_infer", (1, 3, 64, 96), {"Conv": 62, "ConvTranspose": 2}),
        ("ch_PP-OCRv4_rec_infer", (2, 3, 48, 160), {"Conv": 38, "MatMul": 13}),
        ("ch_ppocr_mobile_v2.0_cls_infer", (2, 3, 48, 192), {"Conv": 53, "MatMul": 1}),
    ],
)
def test_the_canonical_model_computes_what_the_file_does(
    name: str, shape: tuple[int, ...], layers: dict[str, int]
) -> None:
    path = FOLDER / f"{name}.onnx"
    original = onnx.load(path)
    model = read_onnx(path, {})
    canonicalize(model, "2026")
    assert_canonical(model, 18)
    found = ops(model)
    assert {op_type: found.count(op_type) for op_type in layers} == layers
    assert "BatchNormalization" not in found
    image = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    feeds = {original.graph.input[0].name: image}
    expected = list(run(original, feeds).values())
    for a, b in zip(run(model, feeds).values(), expected, strict=True):
        assert np.isfinite(a).all() and np.allclose(a, b, rtol=0, atol=1e-5)
