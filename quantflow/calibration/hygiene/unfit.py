"""Going on past single samples that hold nothing usable, and saying which."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from numpy.typing import NDArray

from quantflow.errors import QuantflowError

UNFIT_CODES: Final = frozenset({"QF307", "QF315"})
"""Errors about what a single sample holds. All others are about how samples are made."""

Record = Mapping[str, Any]
Arrays = dict[str, NDArray[Any]]
Make = Callable[[Sequence[Record], Sequence[str]], list[Arrays]]


@dataclass(frozen=True, slots=True)
class Unfit:
    """A sample that cannot be used.

    Attributes:
        id: where it came from.
        code: of the error, one of `UNFIT_CODES`.
        what: the error, in one sentence.
    """

    id: str
    code: str
    what: str


@dataclass(frozen=True, slots=True)
class Fit:
    """The usable ones of some records.

    Attributes:
        places: positions of their records among those given, ascending.
        samples: their arrays.
        unfit: the others, in order.
    """

    places: tuple[int, ...]
    samples: list[Arrays]
    unfit: tuple[Unfit, ...]


def fit_samples(make: Make, records: Sequence[Record], samples: Sequence[str]) -> Fit:
    """Preprocess records and leave out those without usable values.

    Args:
        make: makes checked samples of records and their ids, such as `Preprocessor.many`; it is
            called for each alone when it refuses all of them.
        records: of a source.
        samples: their ids.

    Raises:
        QuantflowError: any but of `UNFIT_CODES`, which the next record would meet as well.
    """
    try:
        return Fit(tuple(range(len(records))), make(records, samples), ())
    except QuantflowError as error:
        _unfit_or_raise(error, "")
    places, made, unfit = list[int](), list[Arrays](), list[Unfit]()
    for place, (record, sample) in enumerate(zip(records, samples, strict=True)):
        try:
            made += make([record], [sample])
            places.append(place)
        except QuantflowError as error:
            unfit.append(_unfit_or_raise(error, sample))
    return Fit(tuple(places), made, tuple(unfit))


def _unfit_or_raise(error: QuantflowError, sample: str) -> Unfit:
    for problem in error.problems:
        if problem.code not in UNFIT_CODES:
            raise error
    return Unfit(sample, error.problems[0].code, error.problems[0].what)
