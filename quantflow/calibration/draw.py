"""Drawing samples from a pool of records: by seed, without overlap with what was drawn before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.sample_set import SampleInfo, sample_digest
from quantflow.calibration.preprocess import Preprocessor, preview
from quantflow.calibration.sources import Records
from quantflow.errors import fail


@dataclass(frozen=True, slots=True)
class Pool:
    """Records to draw from.

    Attributes:
        name: that of the source in the configuration; sample ids start with it.
        records: all of them.
        order: positions not drawn yet, in the order of drawing; several draws share it.
        column: column of the text, for previews.
    """

    name: str
    records: Records
    order: Iterator[int]
    column: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """Samples with what describes them, and how many records were passed over."""

    infos: tuple[SampleInfo, ...]
    samples: Sequence[dict[str, NDArray[Any]]]
    overlap: int

    @property
    def digests(self) -> frozenset[str]:
        """Content digests of the samples."""
        return frozenset(info.digest for info in self.infos)


def shuffled(count: int, *, seed: int, stream: int) -> Iterator[int]:
    """The numbers below `count` in an order that depends on nothing but the arguments."""
    return map(int, np.random.default_rng([seed, stream]).permutation(count))


def in_order(count: int) -> Iterator[int]:
    """The numbers below `count`, smallest first."""
    return iter(range(count))


def draw(
    pool: Pool,
    count: int,
    preprocess: Preprocessor,
    *,
    taken: Collection[str] = (),
    tick: Callable[[int], None] = lambda done: None,
) -> Drawn:
    """The next `count` records of a pool whose content is not in `taken`.

    Walking a shuffled order past the records that are taken draws uniformly from those that are
    not, and preprocesses no more records than needed.

    Args:
        pool: what to draw from; its order moves on.
        count: number of samples.
        preprocess: from record to sample.
        taken: content digests of samples that must not be drawn.
        tick: called with the number of samples drawn so far.

    Raises:
        QuantflowError: QF308 when the pool runs out, QF303 to QF307 when a record is unfit.
    """
    infos: list[SampleInfo] = []
    samples: list[dict[str, NDArray[Any]]] = []
    overlap = 0
    while len(samples) < count:
        index = next(pool.order, None)
        if index is None:
            _ran_out(pool, len(samples), count, overlap)
        name = f"{pool.name}[{index}]"
        record = pool.records[index]
        sample = preprocess(record, name)
        digest = sample_digest(sample)
        if digest in taken:
            overlap += 1
            continue
        infos.append(SampleInfo(id=name, digest=digest, preview=preview(record, pool.column)))
        samples.append(sample)
        tick(len(samples))
    return Drawn(tuple(infos), samples, overlap)


def _ran_out(pool: Pool, drawn: int, count: int, overlap: int) -> NoReturn:
    what = (
        f"{pool.name} gives {drawn} of {count} samples: of its {len(pool.records)} records, "
        f"{overlap} equal samples of a set that was drawn before"
    )
    fail("QF308", what, where=f"set.{pool.name}", fix="add records, or ask for fewer samples")
