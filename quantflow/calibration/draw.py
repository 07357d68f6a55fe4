"""Drawing samples from a pool of records: by seed, without overlap with what was drawn before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

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
    """Samples with what describes them.

    Attributes:
        infos: where they came from.
        samples: their arrays.
        texts: the text of every record, None where its column holds none.
        passed: content digests of the records that were passed over.
    """

    infos: tuple[SampleInfo, ...]
    samples: Sequence[dict[str, NDArray[Any]]]
    texts: tuple[str | None, ...]
    passed: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.infos)

    def take(self, rows: Sequence[int]) -> Drawn:
        """The samples at some positions, in that order."""
        return Drawn(
            infos=tuple(self.infos[row] for row in rows),
            samples=[self.samples[row] for row in rows],
            texts=tuple(self.texts[row] for row in rows),
            passed=self.passed,
        )

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
    least: int | None = None,
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
        least: number of samples that will do when the pool runs out; without it, `count`.
        taken: content digests of samples that must not be drawn.
        tick: called with the number of samples drawn so far.

    Raises:
        QuantflowError: QF308 when the pool runs out, QF303 to QF307 when a record is unfit.
    """
    infos: list[SampleInfo] = []
    samples: list[dict[str, NDArray[Any]]] = []
    texts: list[str | None] = []
    passed: list[str] = []
    while len(samples) < count:
        index = next(pool.order, None)
        if index is None and least is not None and len(samples) >= least:
            break
        if index is None:
            _ran_out(pool, len(samples), least or count, len(passed))
        name = f"{pool.name}[{index}]"
        record = pool.records[index]
        if not isinstance(cast(object, record), Mapping):
            what = f"the function must yield dict records, {name} is {type(record).__name__}"
            fail("QF304", what, where=name)
        sample = preprocess(record, name)
        digest = sample_digest(sample)
        if digest in taken:
            passed.append(digest)
            continue
        text = record.get(pool.column)
        infos.append(SampleInfo(id=name, digest=digest, preview=preview(record, pool.column)))
        samples.append(sample)
        texts.append(text if isinstance(text, str) else None)
        tick(len(samples))
    return Drawn(tuple(infos), samples, tuple(texts), tuple(passed))


def _ran_out(pool: Pool, drawn: int, count: int, overlap: int) -> NoReturn:
    what = (
        f"{pool.name} gives {drawn} of {count} samples: of its {len(pool.records)} records, "
        f"{overlap} equal samples of a set that was drawn before"
    )
    fail("QF308", what, where=f"set.{pool.name}", fix="add records, or ask for fewer samples")
