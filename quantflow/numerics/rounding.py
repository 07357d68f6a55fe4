"""Rounding to the narrow float formats of the chip."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FP16_MAX = 65504.0
"""Largest finite fp16 value."""
FP16_SMALLEST_NORMAL = 2.0**-14
"""Below this an fp16 value is subnormal and loses precision."""
FP16_FLUSH = 2.0**-25
"""At or below this a value becomes zero in fp16 (round to nearest even)."""

_FP19_MASK = np.uint32(0xFFFFE000)


def round_fp16(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Round to fp16 and back; beyond 65504 the result is infinite."""
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(np.float32)


def truncate_fp19(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Drop the low 13 mantissa bits, as a fixpipe reads a dequantization scale.

    The relative error lies in ``[0, 2**-10)``.
    """
    return (np.asarray(x, np.float32).view(np.uint32) & _FP19_MASK).view(np.float32)
