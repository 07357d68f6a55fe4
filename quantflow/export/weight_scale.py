"""Weight scales that leave a layer's bias and dequantization scale representable."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quantflow.config import Granularity
from quantflow.numerics.quantize import weight_scales

_TINY = float(np.finfo(np.float32).tiny)
_BIAS_STEPS = 2.0**23
"""Steps that a bias of a dead channel takes up at most: float32's own resolution."""


def layer_weight_scales(
    weight: NDArray[np.float32],
    bias: NDArray[np.float32] | None,
    scale_d: float,
    granularity: Granularity,
) -> NDArray[np.float32]:
    """Symmetric weight scales of a MatMul or Gemm layer.

    A channel is dead when its weights are zero, or so small that ``scale_d * scale_w`` would not be
    a normal float32. Its weights quantize to zero under any scale, but its bias is stored in steps
    of that scale and would be lost in coarse ones (a scale of 1, say). So a dead channel takes the
    widest scale of the live ones, or a wider one if its bias needs it to stay well inside int32.

    Args:
        weight: ``(K, N)`` finite float32.
        bias: ``(N,)`` float32 or None.
        scale_d: activation scale.
        granularity: one scale per output channel (axis 1), or one for all.

    Returns:
        ``(N,)`` or ``(1,)`` float32, positive.
    """
    axis = 1 if granularity == "per-channel" else None
    scales = weight_scales(weight, axis)
    absmax = np.abs(weight).max(axis=0 if axis == 1 else None, initial=0.0).reshape(-1)
    dead = (absmax == 0) | (scales.astype(np.float64) * scale_d < _TINY)
    if not dead.any():
        return scales
    reach = np.zeros(scales.shape) if bias is None else np.abs(bias).astype(np.float64)
    if axis is None:
        reach = reach.max(initial=0.0, keepdims=True)
    widest = float(scales[~dead].max(initial=0.0))
    needed = np.maximum(widest, reach / (scale_d * _BIAS_STEPS))
    stand_in = np.where(needed > 0, np.maximum(needed, 2 * _TINY / scale_d), 1.0)
    return np.where(dead, stand_in, scales).astype(np.float32)
