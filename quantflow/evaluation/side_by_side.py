"""Two sides compared and judged: any precisions, ONNX files or dumps."""

from __future__ import annotations

from collections.abc import Sequence

from quantflow.artifacts.side_by_side import FirstBeyond, Point, SideBySide
from quantflow.errors import fail
from quantflow.evaluation.bisection import Search, first_beyond
from quantflow.evaluation.dump_names import left_over, shared_names
from quantflow.evaluation.dump_order import first_of_dumps, in_order
from quantflow.evaluation.dump_pair import measure_dumps
from quantflow.evaluation.measuring import Measured, measure
from quantflow.evaluation.pair_notes import missing, other_inputs, other_samples, unused
from quantflow.evaluation.pair_verdict import judge
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
    advice = " --samples gives the run's model those of the dump"
    notes = [
        *other_inputs(points[:1], sides, advice),
        *missing(every, sides),
        *unused(every, sides, [info.name for info in subject.record.inputs]),
        *other_samples(found.held, len(search.ids), found.samples),
    ]
    first = first_beyond(search, places, points)
    return _record(sides, subject.bucket.name, found.samples, search.asked, points, first, notes)


def compare_dumps(
    reference: DumpSide,
    other: DumpSide,
    asked: Thresholds,
    progress: Progress,
    limit: int | None = None,
    graph: Sequence[Place] = (),
) -> SideBySide:
    """Compare two dumps; no model and no configuration is needed.

    Args:
        reference, other: the dumps.
        asked: of the pair.
        progress: called after every tensor.
        limit: most entries along the first axis of an array.
        graph: everything that a run's model computes, which tells the order where the dumps do not.

    Raises:
        QuantflowError: QF342 when they have no tensor in common.
    """
    names = shared_names(reference.dump.tensors, other.dump.tensors)
    if not names:
        _nothing_in_common((reference, other))
    places, known = in_order(reference.dump, other.dump, names, graph)
    found = measure_dumps(reference, other, names, progress, limit)
    points = _judged(places, found, asked)
    of_reference = {name: name for name in names}
    first, unordered = first_of_dumps(places, points, known)
    sides = (reference, other)
    notes = [
        *other_inputs(points[:1] if known else points, sides),
        *unordered,
        *left_over(reference.dump.tensors, of_reference, reference.info.name),
        *left_over(other.dump.tensors, names, other.info.name),
    ]
    return _record(sides, "", found.samples, asked, points, first, notes)


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
