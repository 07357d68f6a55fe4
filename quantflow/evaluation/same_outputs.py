"""Whether two float models compute the same: outputs that differ by rounding only.

Rounding is told from anything else by its size. Along a deep network it grows to 1e-5 or 1e-4 of an
output's norm in float32, whereas another mapping of coordinates, or another mask, shows in the
first digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.runtime.bucket_run import Outputs

ROUNDING, HALF_ROUNDING = 1e-2, 5e-2
"""Largest relative error, in the Euclidean norm, that is taken for rounding: of two models in
float32, and of one in half precision."""

_NEGLIGIBLE = 1e-6
"""Error of an element that is none, whatever the norm: some outputs are zero but for rounding."""

_CHUNK = 2**22

_UNEQUAL = 0.5
"""Largest share of an integer output that may differ, since near ties fall either way."""


def differences(
    expected: Sequence[Outputs], found: Sequence[Outputs], *, half: bool = False
) -> list[str]:
    """What differs by more than rounding, one sentence an output.

    Values that are not finite in `expected` count nowhere: a row that is masked throughout, or an
    overflow in half precision.

    Args:
        expected, found: outputs of the same samples.
        half: whether `expected` was computed in half precision.
    """
    limit, said = HALF_ROUNDING if half else ROUNDING, list[str]()
    for name in expected[0]:
        pairs = [(a[name], b[name]) for a, b in zip(expected, found, strict=True)]
        shapes = next(((a.shape, b.shape) for a, b in pairs if a.shape != b.shape), None)
        if shapes is not None:
            said.append(f"output {name!r} has the shape {shapes[1]}, not {shapes[0]}")
        elif not np.issubdtype(pairs[0][0].dtype, np.floating):
            unequal = sum(int((a != b).sum()) for a, b in pairs)
            share = unequal / max(sum(a.size for a, _ in pairs), 1)
            if share > _UNEQUAL:
                said.append(f"{share:.0%} of output {name!r} are other integers")
        elif (error := _relative_error(pairs)) > limit:
            said.append(f"output {name!r} differs by {error:.2g} of its norm")
    return said


def finite(outputs: Sequence[Outputs]) -> bool:
    """Whether there is any finite number among some outputs."""
    return any(bool(np.isfinite(array).any()) for sample in outputs for array in sample.values())


def _relative_error(pairs: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> float:
    """Norm of the error over that of what is expected, all samples together."""
    error, size = 0.0, 0.0
    for a, b in pairs:
        count = a.size // _CHUNK + 1  # logits of a text are 100 MB, and more in float64
        parts = (np.array_split(array.ravel(), count) for array in (a, b))
        for expected, found in zip(*parts, strict=True):
            counted = np.isfinite(expected)
            x, y = expected[counted].astype(np.float64), found[counted].astype(np.float64)
            if not np.isfinite(y).all():
                return np.inf
            off = np.abs(x - y)
            error += float(np.square(off[off > _NEGLIGIBLE]).sum())
            size += float(np.square(x).sum())
    return float(np.sqrt(error / size)) if size else (np.inf if error else 0.0)
