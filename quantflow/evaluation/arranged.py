"""A batch of any tensor, sample by sample and without padding."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Layout, ModelRecord
from quantflow.ranges.part import Part, arrange
from quantflow.runtime.runner import Feeds


def arrange_batch(
    value: NDArray[Any],
    feeds: Feeds,
    count: int,
    record: ModelRecord,
    layout: Layout,
    name: str,
) -> Part:
    """The values of a batch's samples.

    Args:
        value: the tensor.
        feeds: what the model was given; the mask among it says what is padding.
        count: how many of the samples are no repetitions.
        record: names the mask.
        layout: how the tensor's axes relate to the mask.
        name: of the tensor.

    Raises:
        QuantflowError: QF501 when the shape does not fit the layout.
    """
    batch = len(feeds[record.inputs[0].name])
    mask = feeds[record.mask.name] != 0 if record.mask is not None else None
    if mask is not None and mask.ndim != 2:
        mask = None
    return arrange(value, count, batch, mask, layout, name)


def sample_values(part: Part) -> list[NDArray[np.float32]]:
    """The real values of each sample: rows along the last axis if those are whole, or a vector."""
    if part.real is None:
        return list(part.values)
    spread = part.spread()
    return [values[real] for values, real in zip(part.values, spread, strict=True)]
