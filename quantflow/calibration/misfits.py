"""All records of a draw that do not fit the model, in one error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, cast

from quantflow.errors import Problem, QuantflowError

MISFIT = "QF306"
"""The error of a sample whose names, shapes or dtypes are not those of the model's inputs."""

NAMED = 10

Record = Mapping[str, Any]


def raise_all(
    error: QuantflowError, records: Iterable[tuple[str, Record]], make: Callable[[Record, str], Any]
) -> NoReturn:
    """Raise an error anew, with the ids of all other samples that do not fit either.

    Args:
        error: about the first of them; one that is about anything else is raised as it is.
        records: id and record of all that are to be looked at; no more than it takes to name
            `NAMED` are.
        make: makes the checked sample of a record and its id.

    Raises:
        QuantflowError: always.
    """
    first = error.problems[0]
    if first.code != MISFIT:
        raise error
    ids = list[str]()
    for sample, record in records:
        try:
            if isinstance(cast("object", record), Mapping):  # another error's matter
                make(record, sample)
        except QuantflowError as other:
            if other.problems[0].code == MISFIT:
                ids.append(sample)
        if len(ids) > NAMED:
            break
    if len(ids) < 2:
        raise error
    count = f"{len(ids)} samples" if len(ids) <= NAMED else f"more than {NAMED} samples"
    more = ", ..." if len(ids) > NAMED else ""
    what = f"{first.what}; {count} do not fit the model: {', '.join(ids[:NAMED])}{more}"
    raise QuantflowError([Problem(first.code, what, first.where, first.fix)]) from error
