"""Drawing samples from a pool of records: by seed, without overlap with what was drawn before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NoReturn, cast, overload

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.sample_set import SampleInfo, sample_digest
from quantflow.calibration.hygiene.unfit import Unfit, fit_samples
from quantflow.calibration.misfits import raise_all
from quantflow.calibration.preprocess import Preprocessor, preview
from quantflow.calibration.sources import Records
from quantflow.errors import QuantflowError, fail

Arrays = dict[str, NDArray[Any]]


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
class Batch:
    """Samples that were drawn together.

    Attributes:
        infos: where they came from.
        places: positions of their records in the pool.
        samples: their arrays.
        records: what they were made of.
    """

    infos: tuple[SampleInfo, ...]
    places: tuple[int, ...]
    samples: Sequence[Arrays]
    records: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Drawn:
    """Samples with what describes them.

    Attributes:
        infos: where they came from.
        samples: their arrays; made anew whenever they are read, where they were not kept.
        passed: the records that were passed over, since their content was taken.
        unfit: the records that were left out, since nothing usable is in them.
    """

    infos: tuple[SampleInfo, ...]
    samples: Sequence[Arrays]
    passed: tuple[SampleInfo, ...] = ()
    unfit: tuple[Unfit, ...] = ()

    def __len__(self) -> int:
        return len(self.infos)

    def take(self, rows: Sequence[int]) -> Drawn:
        """The samples at some positions, in that order, with their arrays."""
        return Drawn(
            infos=tuple(self.infos[row] for row in rows),
            samples=[self.samples[row] for row in rows],
            passed=self.passed,
            unfit=self.unfit,
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
    observe: Callable[[Batch], None] = lambda batch: None,
    keep: bool = True,
    leave_unfit: bool = False,
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
        observe: called with all samples, some at a time.
        keep: false to let their arrays go after that, so that only their names stay in memory.
        leave_unfit: true to leave out records that are empty, all padding or not finite, rather
            than to stop at the first.
        tick: called with the number of samples drawn so far.

    Raises:
        QuantflowError: QF308 when the pool runs out, QF303 to QF307 or QF315 for a record; QF306
            names all samples of the draw that do not fit the model, up to ten.
    """
    infos, samples = list[SampleInfo](), list[Arrays]()
    places, passed, unfit = list[int](), list[SampleInfo](), list[Unfit]()
    while len(infos) < count:
        wanted = list(islice(pool.order, min(preprocess.chunk, count - len(infos))))
        if not wanted:
            if least is not None and len(infos) >= least:
                break
            _ran_out(pool, len(infos), least or count, len(passed), len(unfit))
        try:
            batch, others, left = _read(pool, wanted, preprocess, taken, leave_unfit=leave_unfit)
        except QuantflowError as error:
            rest = islice(pool.order, count - len(infos) - len(wanted))
            records = ((f"{pool.name}[{i}]", pool.records[i]) for i in chain(wanted, rest))
            raise_all(error, records, preprocess)
        unfit += left
        infos += batch.infos
        places += batch.places
        passed += others
        if keep:
            samples += batch.samples
        if batch.infos:
            observe(batch)
        tick(len(infos))
    made = samples if keep else _Remade(pool, tuple(places), tuple(infos), preprocess)
    return Drawn(tuple(infos), made, tuple(passed), tuple(unfit))


def _read(
    pool: Pool,
    wanted: Sequence[int],
    preprocess: Preprocessor,
    taken: Collection[str],
    *,
    leave_unfit: bool,
) -> tuple[Batch, list[SampleInfo], tuple[Unfit, ...]]:
    """The samples of some records, those whose content is taken, and those that are unfit."""
    names = [f"{pool.name}[{index}]" for index in wanted]
    records = [pool.records[index] for index in wanted]
    for name, record in zip(names, records, strict=True):
        if not isinstance(cast(object, record), Mapping):
            what = f"the function must yield dict records, {name} is {type(record).__name__}"
            fail("QF304", what, where=name)
    unfit: tuple[Unfit, ...] = ()
    if leave_unfit:
        fit = fit_samples(preprocess.many, records, names)
        samples, unfit = fit.samples, fit.unfit
        names = [names[i] for i in fit.places]
        records = [records[i] for i in fit.places]
        wanted = [wanted[i] for i in fit.places]
    else:
        samples = preprocess.many(records, names)
    infos = [
        SampleInfo(id=name, digest=sample_digest(sample), preview=preview(record, pool.column))
        for name, sample, record in zip(names, samples, records, strict=True)
    ]
    kept = [i for i, info in enumerate(infos) if info.digest not in taken]
    batch = Batch(
        infos=tuple(infos[i] for i in kept),
        places=tuple(wanted[i] for i in kept),
        samples=[samples[i] for i in kept],
        records=[records[i] for i in kept],
    )
    return batch, [info for info in infos if info.digest in taken], unfit


class _Remade(Sequence[Arrays]):
    """Samples that are made anew whenever they are read."""

    def __init__(
        self,
        pool: Pool,
        places: tuple[int, ...],
        infos: tuple[SampleInfo, ...],
        preprocess: Preprocessor,
    ) -> None:
        self._pool, self._preprocess = pool, preprocess
        self._places, self._infos = places, infos

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Arrays: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Arrays]: ...
    def __getitem__(self, index: int | slice) -> Arrays | Sequence[Arrays]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        info = self._infos[index]
        sample = self._preprocess(self._pool.records[self._places[index]], info.id)
        if sample_digest(sample) != info.digest:
            what = f"{info.id} is not the same when it is read and preprocessed again"
            fix = "make the function give the same arrays for the same record: seed what is random"
            fail("QF304", what, where=info.id, fix=fix)
        return sample


def _ran_out(pool: Pool, drawn: int, count: int, overlap: int, unfit: int) -> NoReturn:
    what = (
        f"{pool.name} gives {drawn} of {count} samples: of its {len(pool.records)} records, "
        f"{overlap} equal samples of a set that was drawn before"
    )
    if unfit:
        what += f", and {unfit} are empty or not finite"
    fail("QF308", what, where=f"set.{pool.name}", fix="add records, or ask for fewer samples")
