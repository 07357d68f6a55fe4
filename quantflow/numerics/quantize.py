"""Uniform INT8 quantization as Ascend computes it.

Activations are per-tensor with an int8 zero point, ``q = clip(rint(x * (1 / s)) + z, -128, 127)``
with ties to even and the reciprocal held as float32, since AscendQuant multiplies. Weights are
symmetric, one scale per tensor or per output channel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

QMIN, QMAX = -128, 127
"""Bounds of int8."""

MIN_MULTIPLIER, MAX_MULTIPLIER = 2.0**-23, 2.0**23
"""Bounds of AscendQuant's `scale` attribute, the reciprocal of the activation scale."""

LARGEST = float(np.finfo(np.float32).max) * (1 - 2.0**-7)
"""Bounds are clipped to it, so that a last level half a step beyond them is still finite."""


@dataclass(frozen=True, slots=True)
class QuantParams:
    """Scale (a float32 value, units of x per step) and zero point (int8) of an activation."""

    scale: float
    zero_point: int

    @property
    def multiplier(self) -> np.float32:
        """The float32 reciprocal of the scale: AscendQuant's `scale` attribute."""
        return np.float32(1.0) / np.float32(self.scale)


def activation_params(low: float, high: float, *, symmetric: bool) -> QuantParams:
    """Scale and zero point that represent ``[low, high]``.

    The range is widened to contain zero, so that zero (padding) is exact. Asymmetric ranges use 256
    levels, symmetric ones 255. A range of zero width gets scale 1.

    Args:
        low, high: finite bounds, in units of the tensor, ``low <= high``.
        symmetric: zero point 0, range ``[-m, m]`` with ``m = max(|low|, |high|)``.
    """
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError(f"bounds must be finite: [{low}, {high}]")
    low, high = max(min(low, 0.0), -LARGEST), min(max(high, 0.0), LARGEST)
    if low == high:
        return QuantParams(1.0, 0)
    # Divide before subtracting: high - low may leave the range of float32.
    scale = max(-low, high) / QMAX if symmetric else high / 255 - low / 255
    scale = float(np.float32(max(scale, float(np.finfo(np.float32).tiny))))
    zero_point = 0 if symmetric else int(np.clip(QMIN - np.rint(low / scale), QMIN, QMAX))
    return QuantParams(scale, zero_point)


def quantize(x: NDArray[np.float32], params: QuantParams) -> NDArray[np.int8]:
    """Quantize an activation of any shape, float32 to int8."""
    with np.errstate(over="ignore"):  # infinity saturates like any large value
        q = np.rint(x * params.multiplier) + np.float32(params.zero_point)
    return np.clip(q, QMIN, QMAX).astype(np.int8)


def dequantize(q: NDArray[np.int8], params: QuantParams) -> NDArray[np.float32]:
    """The float32 value that an int8 activation stands for."""
    return (q.astype(np.float32) - np.float32(params.zero_point)) * np.float32(params.scale)


def weight_scales(weight: NDArray[np.float32], axis: int | None) -> NDArray[np.float32]:
    """Symmetric weight scales.

    Args:
        weight: any shape, float32.
        axis: the output-channel axis, or None for one scale.

    Returns:
        ``(C,)`` or ``(1,)`` float32, positive; an all-zero channel gets scale 1. Scales below the
        smallest normal float32 are raised to it, which keeps their reciprocal finite.
    """
    others = tuple(i for i in range(weight.ndim) if axis is None or i != axis % weight.ndim)
    # Not max(abs(weight)), which would take as much memory as the weight.
    highest, lowest = weight.max(axis=others, initial=0.0), weight.min(axis=others, initial=0.0)
    absmax = np.atleast_1d(np.maximum(highest, -lowest))
    scales = np.minimum(absmax, np.float32(LARGEST)) / np.float32(QMAX)
    scales = np.maximum(scales, np.finfo(np.float32).tiny)
    return np.where(absmax == 0, np.float32(1), scales).astype(np.float32)


def quantize_weight(
    weight: NDArray[np.float32], scales: NDArray[np.float32], axis: int | None
) -> NDArray[np.int8]:
    """Quantize a weight with the scales of `weight_scales`, float32 to int8 of the same shape."""
    q = weight / _along(scales, weight.ndim, axis)
    np.rint(q, out=q)
    return np.clip(q, QMIN, QMAX, out=q).astype(np.int8)


def dequantize_weight(
    q: NDArray[np.int8], scales: NDArray[np.float32], axis: int | None
) -> NDArray[np.float32]:
    """The float32 weight that an int8 weight stands for."""
    return q.astype(np.float32) * _along(scales, q.ndim, axis)


def _along(scales: NDArray[np.float32], ndim: int, axis: int | None) -> NDArray[np.float32]:
    if axis is None:
        return scales.reshape((1,) * ndim)
    shape = [1] * ndim
    shape[axis] = -1
    return scales.reshape(shape)
