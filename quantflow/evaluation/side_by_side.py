"""Two sides compared and judged: any precisions, ONNX files or dumps."""

from __future__ import annotations

from collections.abc import Sequence

from quantflow.artifacts.side_by_side import FirstBeyond, Point, SideBySide
from quantflow.errors import fail
from quantflow.evaluation.bisection import Search, first_beyond, first_point
from quantflow.evaluation.dump_names import left_over, shared_names
from quantflow.evaluation.dump_pair import measure_dumps
from quantflow.evaluation.measuring import Measured, measure
from quantflow.evaluation.pair_verdict import judge, some
from quantflow.evaluation.places import Place, places_of
from quantflow.evaluation.sides import DumpSide, Side
from quantflow.evaluation.thresholds import Thresholds, excess
from quantflow.progress import Progress


def compare_sides(search: Search) -> SideBySide:
    """Compare two sides on the samples of a run.

    Args:
        search: sides, bucket, samples and what is asked.

    Raises:
        QuantflowError: QF342 when they have no layer and no output in common.
    """
    subject, sides = search.subject, (search.reference, search.other)
    every = places_of(subject.model, subject.record)
    places = _common(every, sides)
    if not any(place.kind != "block" for place in places):
        _nothing_in_common(sides)
    found = measure(
        places, *sides, subject, search.samples(), search.ids, search.progress,
        repeat=search.repeat, label=f"comparing {sides[0].info.name} and {sides[1].info.name}",
    )  # fmt: skip
    points = _judged(places, found, search.asked)
    notes = [*_missing(every, sides), *_unused(sides), *_fewer(found, len(search.ids))]
    first = first_beyond(search, places, points)
    return _record(sides, subject.bucket.name, found.samples, search.asked, points, first, notes)


def compare_dumps(
    reference: DumpSide,
    other: DumpSide,
    asked: Thresholds,
    progress: Progress,
    limit: int | None = None,
) -> SideBySide:
    """Compare two dumps; no model and no configuration is needed.

    Args:
        reference, other: the dumps.
        asked: of the pair.
        progress: called after every tensor.
        limit: most entries along the first axis of an array.

    Raises:
        QuantflowError: QF342 when they have no tensor in common.
    """
    names = shared_names(reference.dump.tensors, other.dump.tensors)
    if not names:
        _nothing_in_common((reference, other))
    places, found = measure_dumps(reference, other, progress, limit)
    points = _judged(places, found, asked)
    of_reference = {name: name for name in names}
    notes = [
        *left_over(reference.dump.tensors, of_reference, reference.info.name),
        *left_over(other.dump.tensors, names, other.info.name),
    ]
    number = first_point(places, points)
    first = None
    if number is not None:
        before = places[number - 1].tensor if number else ""
        first = FirstBeyond(
            point=points[number].name,
            tensor=places[number].tensor,
            last_good=before,
            reason=points[number].beyond,
        )
    return _record((reference, other), "", found.samples, asked, points, first, notes)


def _common(places: Sequence[Place], sides: Sequence[Side]) -> list[Place]:
    tensors = [place.tensor for place in places]
    there = [set(side.has(tensors)) for side in sides]
    return [place for place in places if all(place.tensor in names for names in there)]


def _nothing_in_common(sides: Sequence[Side]) -> None:
    names = " and ".join(side.info.name for side in sides)
    fix = "name files after layers (`quantflow show layers`), or give models of one graph"
    fail("QF342", f"{names} have no layer and no output in common", where=names, fix=fix)


def _judged(places: Sequence[Place], found: Measured, asked: Thresholds) -> list[Point]:
    points = list[Point]()
    for place in places:
        point = found.tallies[place.tensor].point(place, found.jitter.get(place.tensor))
        reason = "" if point.trouble else excess(point, place.kind, asked)
        points.append(point.model_copy(update={"beyond": reason}))
    return points


def _missing(places: Sequence[Place], sides: Sequence[Side]) -> list[str]:
    """A sentence for every side that lacks layers or outputs."""
    notes = list[str]()
    for side in sides:
        asked = [place for place in places if place.kind != "block"]
        there = set(side.has([place.tensor for place in asked]))
        gone = list(dict.fromkeys(x.name for x in asked if x.tensor not in there))
        if gone:
            notes.append(f"not compared, since {side.info.name} lacks them: {some(gone)}")
    return notes


def _unused(sides: Sequence[Side]) -> list[str]:
    dumps = (side for side in sides if isinstance(side, DumpSide))
    return [x for side in dumps for x in left_over(side.dump.tensors, side.names, side.info.name)]


def _fewer(found: Measured, samples: int) -> list[str]:
    if found.samples == samples:
        return []
    return [f"the dump holds {found.samples} of {samples} samples; the first ones were compared"]


def _record(
    sides: Sequence[Side],
    bucket: str,
    samples: int,
    asked: Thresholds,
    points: Sequence[Point],
    first: FirstBeyond | None,
    notes: list[str],
) -> SideBySide:
    verdict, reasons, marks = judge(points, asked)
    return SideBySide(
        reference=sides[0].info,
        other=sides[1].info,
        bucket=bucket,
        samples=samples,
        limits=asked.as_limits(),
        points=tuple(points),
        first_beyond=first,
        verdict=verdict,
        reasons=tuple(reasons),
        notes=(*marks, *notes),
    )
