"""A convolution keeps its own name when the exporter folds the BatchNorm behind it."""

from __future__ import annotations

import pytest

from quantflow.config import InputConfig
from quantflow.graph.canonical import canonicalize
from quantflow.graph.from_torch import export_torch

torch = pytest.importorskip("torch")


def test_a_layer_with_a_folded_batch_norm_is_named_by_its_own_module() -> None:
    nn = torch.nn
    module = nn.Sequential()
    module.add_module("stem", nn.Conv2d(3, 4, 3, bias=False))
    module.add_module("stem_norm", nn.BatchNorm2d(4))
    module.add_module("depthwise", nn.Conv2d(4, 4, 3, groups=4))
    module.add_module("depthwise_norm", nn.BatchNorm2d(4))
    module.add_module("plain", nn.Conv2d(4, 2, 1))
    module.add_module("flat", nn.Flatten())
    module.add_module("head", nn.Linear(2 * 4 * 4, 5))
    spec = InputConfig(shape=("batch", 3, 8, 8))
    model = export_torch(module, {"x": spec}, ["y"])
    canonicalize(model, "2026")
    layers = [node.name for node in model.graph if node.op_type in ("Conv", "Gemm")]
    assert layers == ["stem", "depthwise", "plain", "head"]
    assert not any(node.op_type == "BatchNormalization" for node in model.graph)
