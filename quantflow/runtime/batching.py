"""From samples to compute batches of one fixed size.

The batch is quantflow's own choice, whatever batches the data came in: the last batch of every
shape is padded by repeating its last sample, and what the padding yields is discarded. So a
sample's result does not depend on how many samples there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.runtime.runner import Feeds


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples that run together.

    Attributes:
        indices: position of every sample in the set; shorter than the batch when it was padded.
        feeds: one array per input, ``(batch, ...)``.
    """

    indices: tuple[int, ...]
    feeds: dict[str, NDArray[Any]]

    @property
    def count(self) -> int:
        """Number of samples that are not padding."""
        return len(self.indices)


def batches(samples: Iterable[Feeds], size: int) -> Iterator[Batch]:
    """Group consecutive samples of equal shape into batches of exactly `size`.

    Samples of a shape wait until `size` of them are there, so at most ``size`` samples per distinct
    shape are in memory.
    """
    waiting: dict[tuple[Any, ...], list[tuple[int, Feeds]]] = {}
    for index, sample in enumerate(samples):
        shape = tuple((name, array.shape) for name, array in sorted(sample.items()))
        group = waiting.setdefault(shape, [])
        group.append((index, sample))
        if len(group) == size:
            yield _stack(group, size)
            del waiting[shape]
    for group in waiting.values():
        yield _stack(group, size)


def _stack(group: list[tuple[int, Feeds]], size: int) -> Batch:
    rows = [sample for _, sample in group]
    rows += [rows[-1]] * (size - len(rows))
    feeds = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return Batch(tuple(index for index, _ in group), feeds)
