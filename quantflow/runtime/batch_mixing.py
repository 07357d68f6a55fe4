"""Whether what a model makes of a sample depends on the others in its batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import TensorInfo
from quantflow.errors import fail
from quantflow.runtime.runner import Feeds, Runner

TOLERANCE = 1e-3
"""Relative difference between two results for one sample that no order of additions explains."""

NEGLIGIBLE = 1e-6
"""Difference of an element that is none: some outputs are zero but for rounding."""


def check_mixing(
    runner: Runner, sample: Feeds, other: Feeds, size: int, outputs: Sequence[TensorInfo]
) -> None:
    """Run a sample among copies of itself and among another one; both must give the same for it.

    It stands in the same row of batches of one size, so that nothing but the company differs.

    Args:
        runner: the float model.
        sample, other: of the same shapes, without the batch axis.
        size: of the batch; in one of 1 there is no company.
        outputs: the model's; float ones are compared.

    Raises:
        QuantflowError: QF214 when an output differs.
    """
    alone = runner.run({name: np.stack([array] * size) for name, array in sample.items()})
    mixed = runner.run(
        {name: np.stack([array] + [other[name]] * (size - 1)) for name, array in sample.items()}
    )
    for info in outputs:
        if not info.dtype.startswith("float") or info.shape[:1] == ():
            continue
        if _differ(alone[info.name][0], mixed[info.name][0]):
            fail(
                "QF214",
                f"output {info.name!r} of a sample changes with the other samples of its batch, or "
                "by chance",
                where="the model's outputs",
                fix="take out what computes over the batch axis, or set runtime.batch = 1 and "
                "buckets with a batch of 1",
            )


def _differ(a: NDArray[Any], b: NDArray[Any]) -> bool:
    if a.shape != b.shape:
        return True
    x, y = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = x[finite], y[finite]
    off = np.abs(x - y)
    off[off < NEGLIGIBLE] = 0
    return bool(np.linalg.norm(off) > TOLERANCE * max(np.linalg.norm(x), np.linalg.norm(y)))
