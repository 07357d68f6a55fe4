"""What torch makes of common modules is legal for both targets, and computes the same."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from quantflow.graph.canonical import canonicalize
from quantflow.target.lint import lint
from tests.graph.models import assert_canonical, rand, run

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional

pytestmark = pytest.mark.slow


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


class First(nn.Module):
    """The first result of a module that reads its input `times` times."""

    def __init__(self, module: Any, times: int = 1) -> None:
        super().__init__()
        self.module, self.times = module, times

    def forward(self, x: Any) -> Any:
        return self.module(*[x] * self.times)[0]


IDS = np.random.default_rng(0).integers(0, 50, (2, 16))
ROWS, IMAGE, HEADS = rand(2, 16, 32), rand(2, 8, 12, 12), rand(2, 4, 16, 8)

MODULES: dict[str, tuple[Any, tuple[np.ndarray, ...]]] = {
    "attention": (First(nn.MultiheadAttention(32, 4, batch_first=True), 3), (ROWS,)),
    "encoder layer": (nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), (ROWS,)),
    "scaled dot product": (Of(lambda q: F.scaled_dot_product_attention(q, q, q)), (HEADS,)),
    "layer norm": (nn.LayerNorm(32), (ROWS,)),
    "group norm": (nn.GroupNorm(4, 8), (IMAGE,)),
    "instance norm": (nn.InstanceNorm2d(8, affine=True), (IMAGE,)),
    "RMS norm": (nn.RMSNorm(32), (ROWS,)),
    "silu": (nn.SiLU(), (ROWS,)),
    "gelu": (nn.GELU(), (ROWS,)),
    "gelu by tanh": (nn.GELU(approximate="tanh"), (ROWS,)),
    "hardswish": (nn.Hardswish(), (ROWS,)),
    "mish": (nn.Mish(), (ROWS,)),
    "softplus": (nn.Softplus(), (ROWS,)),
    "glu": (nn.GLU(-1), (ROWS,)),
    "pixel shuffle": (nn.PixelShuffle(2), (IMAGE,)),
    "nearest": (nn.Upsample(scale_factor=2, mode="nearest"), (IMAGE,)),
    "bilinear": (nn.Upsample(scale_factor=2, mode="bilinear"), (IMAGE,)),
    "bilinear to a size": (nn.Upsample(size=(20, 20), mode="bilinear"), (IMAGE,)),
    "adaptive pooling to 1": (nn.AdaptiveAvgPool2d(1), (IMAGE,)),
    "adaptive pooling to 3": (nn.AdaptiveAvgPool2d(3), (IMAGE,)),
    "lstm": (First(nn.LSTM(32, 16, batch_first=True)), (ROWS,)),
    "gru": (First(nn.GRU(32, 16, batch_first=True)), (ROWS,)),
    "embedding": (nn.Embedding(50, 8), (IDS,)),
    "cumsum": (Of(lambda x: x.cumsum(1)), (ROWS,)),
    "argmax": (Of(lambda x: x.argmax(-1)), (ROWS,)),
    "einsum": (Of(lambda x: torch.einsum("bsh,bth->bst", x, x)), (ROWS,)),
    "top": (Of(lambda x: torch.topk(x, 3)[0]), (ROWS,)),
    "chunk": (Of(lambda x: torch.cat(x.chunk(2, -1)[::-1], -1)), (ROWS,)),
    "normalize": (Of(lambda x: F.normalize(x, dim=-1)), (ROWS,)),
    "reflection": (Of(lambda x: F.pad(x, (1, 2, 0, 1), mode="reflect")), (IMAGE,)),
    "amax": (Of(lambda x: x.amax(-1)), (ROWS,)),
    "logsumexp": (Of(lambda x: x.logsumexp(-1)), (ROWS,)),
    "index put": (Of(lambda x: x.index_put((torch.tensor([0]),), torch.ones(16, 32))), (ROWS,)),
    "transposed convolution": (nn.ConvTranspose2d(8, 4, 2, 2), (IMAGE,)),
}


@pytest.mark.parametrize("version", [18, 20])
@pytest.mark.parametrize("name", MODULES)
def test_a_common_module_is_legal_for_both_targets(name: str, version: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, arrays = MODULES[name]
    tensors = tuple(torch.from_numpy(array) for array in arrays)
    with contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
        expected = module.eval()(*tensors).numpy()
        program = torch.onnx.export(module, tensors, dynamo=True, opset_version=version)
    program.save(tmp_path / "model.onnx")
    for cann, ceiling in (("2026", 18), ("8.0", 16)):
        model = ir.load(tmp_path / "model.onnx")
        canonicalize(model, "8.0" if cann == "8.0" else "2026")
        assert_canonical(model, ceiling)
        assert lint(model, "8.0" if cann == "8.0" else "2026") == []
        feeds = dict(zip([str(x.name) for x in model.graph.inputs], arrays, strict=True))
        (found,) = run(model, feeds).values()
        assert np.allclose(found, expected, atol=1e-4), cann
