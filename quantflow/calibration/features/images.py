"""Features of inputs that are pictures: how bright, contrasty, sharp and colourful they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import TensorInfo

if TYPE_CHECKING:
    from PIL.Image import Image

_LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in brightness (ITU-R BT.601)."""


def channel_axis(tensor: TensorInfo) -> int | None:
    """Axis of an input's colours, the batch axis counted, or None where it is no picture.

    A picture is floats or bytes with a batch axis, two spatial axes of 3 pixels or more, and 1 or 3
    channels, either before or after those.
    """
    if len(tensor.shape) != 4 or tensor.dtype not in ("float32", "float16", "uint8"):
        return None
    for axis, spatial in ((1, tensor.shape[2:]), (3, tensor.shape[1:3])):
        large = all(isinstance(size, str) or size > 3 for size in spatial)
        if tensor.shape[axis] in (1, 3) and large:
            return axis
    return None


def image_features(array: NDArray[Any], name: str, axis: int) -> dict[str, float]:
    """How a picture looks, in the units of the input.

    Args:
        array: a picture of at least 1 by 1 pixels, without the batch axis.
        name: of the input.
        axis: of the channels in `array`; three are taken for red, green and blue or the reverse.

    Returns:
        ``.brightness`` and ``.contrast``, mean and standard deviation of the luma; ``.sharpness``,
        the mean size of its Laplacian; with three channels also ``.saturation``, the mean distance
        of the largest from the smallest channel, and ``.red_green`` and ``.yellow_blue``, the means
        of the opponent colours (Hasler and Süsstrunk 2003), which say what tint it has.
    """
    channels = np.moveaxis(array.astype(np.float64), axis, 0)
    if len(channels) == 1:
        return _luma_features(channels[0], name)
    red, green, blue = channels
    luma = sum(weight * channel for weight, channel in zip(_LUMA, channels, strict=True))
    return {
        **_luma_features(np.asarray(luma), name),
        f"{name}.saturation": float((channels.max(axis=0) - channels.min(axis=0)).mean()),
        f"{name}.red_green": float((red - green).mean()),
        f"{name}.yellow_blue": float(((red + green) / 2 - blue).mean()),
    }


def record_features(image: Image) -> dict[str, float]:
    """How large a picture is before it is resized for the model.

    Args:
        image: as `imagefolder` and `dataset` sources have it.

    Returns:
        ``image.width`` and ``image.height`` in pixels.
    """
    return {"image.width": float(image.width), "image.height": float(image.height)}


def _luma_features(luma: NDArray[np.float64], name: str) -> dict[str, float]:
    return {
        f"{name}.brightness": float(luma.mean()),
        f"{name}.contrast": float(luma.std()),
        f"{name}.sharpness": _sharpness(luma),
    }


def _sharpness(luma: NDArray[np.float64]) -> float:
    """Mean absolute Laplacian over the pixels that have four neighbours; 0 where none has."""
    centre = luma[1:-1, 1:-1]
    if not centre.size:
        return 0.0
    around = luma[:-2, 1:-1] + luma[2:, 1:-1] + luma[1:-1, :-2] + luma[1:-1, 2:]
    return float(np.abs(around - 4 * centre).mean())
