"""Whether two sides agree, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from quantflow.artifacts.record import Verdict
from quantflow.artifacts.side_by_side import Point
from quantflow.evaluation.thresholds import Thresholds, no_numbers

NAMED = 5
"""Most layers that a sentence names."""

_NOTHING_DECIDES = (
    "no output is in both, and layers only mark: {} beyond; --layer-cosine lets them decide"
)


def judge(points: Sequence[Point], asked: Thresholds) -> tuple[Verdict, list[str], list[str]]:
    """Whether the sides agree, and a sentence for everything that does not.

    Args:
        points: with what each is beyond in.
        asked: whether layers decide.

    Returns:
        The verdict, what failed, and what is marked only. NaN and Inf, and tensors that could not
        be compared, fail whatever they are, and so does what is marked where no output decides.
    """
    failed, marked = list[str](), list[str]()
    for point in points:
        if point.trouble:
            failed.append(f"{_called(point)}: {point.trouble}")
        elif point.beyond and (
            point.kind == "output" or asked.layers_decide or no_numbers(point, point.kind)
        ):
            failed.append(f"{_called(point)}: {point.beyond}")
        elif point.beyond:
            marked.append(point.name)
    if marked and not failed and all(point.kind != "output" for point in points):
        failed.append(_NOTHING_DECIDES.format(some(marked)))
    reasons = failed[:NAMED]
    if len(failed) > NAMED:
        reasons.append(f"{len(failed) - NAMED} more places are beyond their thresholds")
    notes = list[str]()
    if marked:
        least = f"cosine {asked.layer_cosine}, relative error {asked.layer_error:.2g}"
        notes.append(f"beyond the mark of layers ({least}), which does not decide: {some(marked)}")
    return ("fail" if failed else "pass"), reasons, notes


def worst_first(points: Sequence[Point]) -> list[Point]:
    """NaN and Inf first, then what could not be compared, what is beyond, and by error."""

    def rank(x: Point) -> tuple[float | str, ...]:
        error = 0.0 if isnan(x.relative_error) else x.relative_error
        apart = -x.nonfinite_apart, not no_numbers(x, x.kind)
        return *apart, not x.trouble, not x.beyond, -error, x.name

    return sorted(points, key=rank)


def _called(point: Point) -> str:
    return f"{point.kind} {point.name!r}"


def some(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
