"""The integers of one INT8 layer: int8 weight, int32 bias and the scale that undoes both.

Deploy model and QDQ twin take them from here, so that they cannot differ in them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantflow.numerics.quantize import QMAX, QMIN, quantize_weight

INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class LayerIntegers:
    """What an INT8 layer holds.

    Attributes:
        weight: ``(K, N)`` int8, the matrix form of the weight; no rows where there is none.
        bias: ``(N,)`` int32 in steps of the deq scale, or None.
        weight_scale: ``(1,)`` or ``(N,)`` float32, units of the weight per step.
        deq_scale: ``(1,)`` or ``(N,)`` float32, units of the output per accumulator step.
    """

    weight: NDArray[np.int8]
    bias: NDArray[np.int32] | None
    weight_scale: NDArray[np.float32]
    deq_scale: NDArray[np.float32]


def layer_integers(
    weight: NDArray[np.float32],
    bias: NDArray[np.float32] | None,
    scale_d: float,
    scale_w: NDArray[np.float32],
) -> LayerIntegers:
    """Quantize a layer's constants.

    Args:
        weight: ``(K, N)`` float32, the matrix form of the weight.
        bias: ``(N,)`` float32 or None.
        scale_d: activation scale, a float32 value.
        scale_w: ``(1,)`` or ``(N,)`` float32.
    """
    steps = None if bias is None else bias_steps(bias, scale_d, scale_w).astype(np.int32)
    return LayerIntegers(
        weight=quantize_weight(weight, scale_w, None if scale_w.size == 1 else 1),
        bias=steps,
        weight_scale=scale_w,
        deq_scale=deq_scales(scale_d, scale_w),
    )


def deq_scales(scale_d: float, scale_w: NDArray[np.float32]) -> NDArray[np.float32]:
    """``scale_d * scale_w`` in float32, shape of `scale_w`; may overflow to infinity."""
    with np.errstate(over="ignore", under="ignore"):
        return np.float32(scale_d) * scale_w


def bias_steps(
    bias: NDArray[np.float32], scale_d: float, scale_w: NDArray[np.float32]
) -> NDArray[np.float64]:
    """``round(bias / (scale_d * scale_w))`` with ties to even, ``(N,)``, not limited to int32."""
    return np.rint(bias.astype(np.float64) / (scale_d * scale_w.astype(np.float64)))


def accumulator_bound(integers: LayerIntegers, zero_point: int) -> int:
    """Largest magnitude that a layer's int32 accumulator can reach, bias included.

    Not for a product of two activations, which have no zero point and would have to be 131,072
    long.
    """
    # int16 holds the magnitude of -128, and takes a quarter of the memory of int64.
    magnitudes = np.abs(integers.weight.astype(np.int16))
    columns = magnitudes.sum(axis=0, dtype=np.int64) * farthest_step(zero_point)
    if integers.bias is not None:
        columns = columns + np.abs(integers.bias.astype(np.int64))
    return int(columns.max(initial=0))


def farthest_step(zero_point: int) -> int:
    """How far an int8 activation can be from its zero point."""
    return max(QMAX - zero_point, zero_point - QMIN)
