"""What must be known beside the figures of two sides: what was left out, and what looks wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from quantflow.artifacts.side_by_side import Point
from quantflow.evaluation.dump_names import left_over
from quantflow.evaluation.pair_verdict import some
from quantflow.evaluation.places import Place
from quantflow.evaluation.sides import DumpSide, Side

UNLIKE = 0.5
"""A cosine that no rounding gives: tensors of other inputs are as far apart."""


def missing(places: Sequence[Place], sides: Sequence[Side]) -> list[str]:
    """A sentence for every side that lacks layers or outputs."""
    notes = list[str]()
    for side in sides:
        asked = [place for place in places if place.kind != "block"]
        there = set(side.has([place.tensor for place in asked]))
        gone = list(dict.fromkeys(x.name for x in asked if x.tensor not in there))
        if gone:
            notes.append(f"not compared, since {side.info.name} lacks them: {some(gone)}")
    return notes


def unused(places: Sequence[Place], sides: Sequence[Side], inputs: Sequence[str]) -> list[str]:
    """Sentences about what of a dump is no place: inside a block, an input or of another graph."""
    notes, asked = list[str](), {place.tensor for place in places}
    for side in sides:
        if not isinstance(side, DumpSide):
            continue
        inner = [name for tensor, name in side.names.items() if tensor not in asked]
        if inner:
            notes.append(
                f"{len(inner)} tensors of {side.info.name} lie inside layers and blocks; they are "
                f"compared inside the first block beyond only: {some(inner)}"
            )
        given = [x for x in side.dump.tensors if x in inputs and x not in side.names.values()]
        if given:
            notes.append(f"{side.info.name} holds inputs, which are not compared: {some(given)}")
        rest = (x for x in side.dump.tensors if x not in given)
        notes += left_over(rest, side.names, side.info.name)
    return notes


def other_samples(held: Mapping[str, int], asked: int, compared: int) -> list[str]:
    """A sentence for every dump that holds fewer or more samples than the run.

    Args:
        held: samples by the dump's name.
        asked: samples of the run.
        compared: how many were compared.
    """
    return [
        f"{name} holds {count} of {asked} samples; the first {compared} were compared"
        if count < asked
        else f"{name} holds {count} samples; the first {compared} were compared"
        for name, count in held.items()
        if count != asked
    ]


def other_inputs(points: Iterable[Point], sides: Sequence[Side], advice: str = "") -> list[str]:
    """A question, where a dump is unlike the other side from the start.

    Args:
        points: the first place; all of them where the order is not known.
        sides: that were compared.
        advice: what may help.
    """
    cosines = [point.cosine for point in points]
    dumps = any(isinstance(side, DumpSide) for side in sides)
    if not dumps or not cosines or not all(cosine < UNLIKE for cosine in cosines):
        return []
    start = "the first place has" if len(cosines) == 1 else "all places have"
    return [f"{start} a cosine below {UNLIKE}: were the inputs of both sides the same?{advice}"]
