"""Whether the buckets of a configuration fit a model: all its free dimensions, and no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from quantflow.config import TargetConfig
from quantflow.errors import Problem, QuantflowError, did_you_mean
from quantflow.graph.bucket import bucket_name, unfixed

LONGEST_NAME: Final = 120
"""Characters of a bucket's name; files are called after it, with something before and behind."""


def check_buckets(names: Sequence[str], target: TargetConfig) -> None:
    """Raise QF206 for what `bucket_problems` finds."""
    if problems := bucket_problems(names, target):
        raise QuantflowError(problems)


def bucket_problems(names: Sequence[str], target: TargetConfig) -> list[Problem]:
    """A QF206 for every dimension that a bucket lacks or has in vain, and for names that clash.

    The bucket of a configuration that gives none is that of a model whose batch alone is free, and
    nothing is in vain there when the model has no free dimension.

    Args:
        names: of the model's free dimensions.
        target: its buckets count.
    """
    problems = [problem for bucket in target.buckets for problem in unfixed(names, bucket)]
    if "buckets" in target.model_fields_set:
        problems += [x for index in range(len(target.buckets)) for x in _vain(names, target, index)]
    return list(dict.fromkeys([*problems, *_clashes(target)]))


def _vain(names: Sequence[str], target: TargetConfig, index: int) -> Iterator[Problem]:
    for name in target.buckets[index]:
        if name not in names:
            what = f"the model has no free dimension {name!r}"
            fix = did_you_mean(name, names) if names else "remove it: no dimension is free"
            yield Problem("QF206", what, f"target.buckets[{index}]", fix)


def _clashes(target: TargetConfig) -> Iterator[Problem]:
    called = [bucket_name(bucket) for bucket in target.buckets]
    fix = "give the model's free dimensions shorter names of letters and digits"
    for name in _repeated(called):
        yield Problem(
            "QF206", f"two buckets would be called {name!r}", where="target.buckets", fix=fix
        )
    for name in called:
        if len(name) > LONGEST_NAME:
            what = f"the name of a bucket has {len(name)} characters, {LONGEST_NAME} are allowed"
            yield Problem("QF206", what, where="target.buckets", fix=fix)


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]
