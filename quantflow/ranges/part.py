"""What one batch adds to a tensor: its values sample by sample, and which of them are padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Layout
from quantflow.errors import fail


@dataclass(frozen=True, slots=True)
class Part:
    """Values of the samples of one batch.

    Attributes:
        values: ``(n, c, ...)`` float32 of n samples. Where the tensor's first axis is the batch, c
            is 1; where the batch is merged with another axis, c is that one's size.
        real: None where nothing is padding, else boolean with as many axes as `values`, or fewer:
            broadcast over the leading ones, it is false for padding.
    """

    values: NDArray[np.float32]
    real: NDArray[np.bool_] | None = None

    @property
    def whole_rows(self) -> bool:
        """Whether rows along the last axis are real, or padding, as a whole."""
        return self.real is None or self.real.ndim < self.values.ndim

    def spread(self) -> NDArray[np.bool_]:
        """`real`, of the size of the leading axes that it is about."""
        assert self.real is not None
        return np.broadcast_to(self.real, self.values.shape[: self.real.ndim])

    def real_values(self) -> NDArray[np.float32]:
        """All values that are no padding; rows stay whole where `whole_rows` holds."""
        # Indexing copies, which data without padding need not pay for.
        return self.values if self.real is None else self.values[self.spread()]

    def row_counts(self) -> list[int]:
        """Number of rows of each sample, where they are whole."""
        count = len(self.values)
        if self.real is None:
            return [self.values[0, ..., 0].size] * count
        spread = self.spread()
        each = self.values[0, ..., 0].size // spread[0].size
        return [int(n) * each for n in spread.reshape(count, -1).sum(axis=1)]

    def nonfinite_samples(self) -> list[int]:
        """Numbers of the samples with a NaN or Inf."""
        found = ~np.isfinite(self.values)
        if self.real is not None:
            found &= self.real.reshape(self.real.shape + (1,) * (found.ndim - self.real.ndim))
        return np.flatnonzero(found.reshape(len(found), -1).any(axis=1)).tolist()


def arrange(
    value: NDArray[Any],
    count: int,
    batch: int,
    mask: NDArray[np.bool_] | None,
    layout: Layout,
    name: str,
) -> Part:
    """The values of a batch's samples, repeated ones left out.

    Args:
        value: the tensor.
        count: how many of the samples are not repetitions.
        batch: number of samples.
        mask: ``(batch, length)``, false where a position is padding, or None.
        layout: how the tensor's axes relate to the mask.
        name: of the tensor.

    Raises:
        QuantflowError: QF501 when the shape does not fit the layout.
    """
    value = np.atleast_2d(value)
    if mask is None or layout == "none":
        if value.shape[0] % batch:  # no batch axis: the tensor is the same for every sample
            value = np.broadcast_to(value, (batch, *value.shape))
        return Part(_by_sample(value, batch, count))
    batch_axis, *along = (0, 1) if layout == "positions" else (0,) if layout == "flat" else layout
    _check(value, mask.shape, layout, (batch_axis, *along), name)
    value = np.moveaxis(value, batch_axis, 0)
    along = [axis + (axis < batch_axis) for axis in along]
    values = _by_sample(value, batch, count)
    real = mask[:count]
    if real.all():
        return Part(values)
    length = mask.shape[1]
    if layout == "flat":
        return Part(values, real)
    # An axis of the tensor is one further in `values`, where the batch fills two.
    shapes = [
        [count, 1, *(length if i == axis else 1 for i in range(1, max(along) + 1))]
        for axis in along
    ]
    both = real.reshape(shapes[0])
    for shape in shapes[1:]:
        both = both & real.reshape(shape)
    return Part(values, both)


def _by_sample(value: NDArray[Any], batch: int, count: int) -> NDArray[np.float32]:
    values = value.reshape(batch, -1, *value.shape[1:])[:count]
    return np.ascontiguousarray(values, np.float32)


def _check(
    value: NDArray[Any],
    mask: tuple[int, ...],
    layout: Layout,
    axes: Sequence[int],
    name: str,
) -> None:
    batch, length = mask
    dims = [value.shape[axis] if axis < value.ndim else 0 for axis in axes]
    if layout == "flat":
        fits = dims == [batch * length]
    else:
        fits = dims[0] > 0 and dims[0] % batch == 0 and all(x == length for x in dims[1:])
    if not fits:
        fail(
            "QF501",
            f"tensor has shape {value.shape}, which does not fit a mask of {mask} at axes {axes}",
            where=name,
            fix="an input marked as mask must be (batch, length); rerun `quantflow prepare`",
        )
