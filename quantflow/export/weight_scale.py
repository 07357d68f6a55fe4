"""Weight scales that leave a layer's bias and dequantization scale representable."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quantflow.config import Granularity
from quantflow.numerics.quantize import weight_scales

_TINY = float(np.finfo(np.float32).tiny)
_BIAS_STEPS = 2.0**23
"""Steps that the bias of a dead channel takes up: float32's own resolution."""
_MOST_STEPS = 2.0**30
"""Steps that a bias may take up before a narrow channel takes a wider scale: half of int32."""


def layer_weight_scales(
    weight: NDArray[np.float32],
    bias: NDArray[np.float32] | None,
    scale_d: float,
    granularity: Granularity,
) -> NDArray[np.float32]:
    """Symmetric weight scales of a layer.

    A bias is stored in steps of ``scale_d * scale_w``, which has two consequences for channels
    whose weights are small, as folding a BatchNorm leaves them:

    * A channel is dead when its weights are zero, or so small that ``scale_d * scale_w`` would not
      be a normal float32. Its weights quantize to zero under any scale, but its bias would be lost
      in coarse steps (a scale of 1, say). So its scale follows from its bias, which is then as fine
      as in float32.
    * A channel whose steps are so fine that its bias would leave int32 takes a wider scale, at most
      the widest in the layer: the one that every channel has without per-channel scales.

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
    empty = ~weight.any(axis=0 if axis == 1 else None)
    dead = empty | (scales.astype(np.float64) * scale_d < _TINY)
    reach = np.zeros(scales.shape) if bias is None else np.abs(bias).astype(np.float64)
    if axis is None:
        reach = reach.max(initial=0.0, keepdims=True)
    widest = float(scales[~dead].max(initial=0.0))
    live = np.maximum(scales, np.minimum(reach / (scale_d * _MOST_STEPS), widest))
    needed = np.where(reach > 0, reach / (scale_d * _BIAS_STEPS), widest)
    stand_in = np.where(needed > 0, np.maximum(needed, 2 * _TINY / scale_d), 1.0)
    return np.where(dead, stand_in, live).astype(np.float32)
