"""Where the error starts: the first block beyond its threshold, then the first tensor inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from quantflow.artifacts.side_by_side import FirstBeyond, OwnError, Point
from quantflow.evaluation.measuring import measure
from quantflow.evaluation.own_error import own_errors
from quantflow.evaluation.places import Block, Place, blocks_of
from quantflow.evaluation.sides import ModelSide, Side
from quantflow.evaluation.subject import Subject
from quantflow.evaluation.thresholds import INT8_KINDS, Thresholds, excess
from quantflow.progress import Progress
from quantflow.runtime.runner import Feeds

ADDS_UP = (
    "no tensor of the block is beyond what is asked of layers: the error adds up along the network"
)


@dataclass(frozen=True, slots=True)
class Search:
    """What a search runs.

    Attributes:
        reference, other: the sides.
        subject: the bucket.
        samples: gives the samples anew each time, arrays without the batch axis.
        ids: of the samples.
        asked: of the pair.
        repeat: how often a model runs the first batch.
        progress: called after every batch.
    """

    reference: Side
    other: Side
    subject: Subject
    samples: Callable[[], Iterable[Feeds]]
    ids: Sequence[str]
    asked: Thresholds
    repeat: int
    progress: Progress


def first_point(places: Sequence[Place], points: Sequence[Point]) -> int | None:
    """Number of the first point, all in order, that is beyond or cannot be compared, or None."""
    return next((i for i in range(len(places)) if points[i].beyond or points[i].trouble), None)


def first_beyond(
    search: Search, places: Sequence[Place], points: Sequence[Point]
) -> FirstBeyond | None:
    """The first place beyond its threshold, or that cannot be compared, inside its block.

    All float tensors of the block that both have are fetched in a second run. Where both sides are
    models and one is INT8, the layers of the block are run alone, too.

    Args:
        search: what is run.
        places, points: what was measured of the whole, in graph order.
    """
    number = first_point(places, points)
    if number is None:
        return None
    place, point = places[number], points[number]
    last_good = places[number - 1].tensor if number else ""
    found = _named(point.name, place, point.beyond or point.trouble, last_good)
    block = _block_of(blocks_of(search.subject.model, search.subject.record), place)
    if block is None:
        return found
    inside = _inside(search, block, place)
    if inside is not None:
        entry, reason, last_good = inside
        outside = [x.tensor for x in places if x.position < entry.position]
        found = _named(point.name, entry, reason, last_good or (outside or [""])[-1])
    found = found.model_copy(update={"block": block.number})
    reference, other = search.reference, search.other
    if not isinstance(reference, ModelSide) or not isinstance(other, ModelSide) or point.trouble:
        return found  # nor can layers of another shape be run alone
    own = _own(search, reference, other, block)
    culprit = _culprit(search.subject, found, own) if inside is not None else ADDS_UP
    return found.model_copy(update={"own": own, "culprit": culprit})


def _named(point: str, place: Place, reason: str, last_good: str) -> FirstBeyond:
    return FirstBeyond(
        point=point,
        tensor=place.tensor,
        node=place.node,
        op_type=place.op_type,
        module=place.module,
        last_good=last_good,
        reason=reason,
    )


def _block_of(blocks: Sequence[Block], place: Place) -> Block | None:
    return next((x for x in blocks if any(y.tensor == place.tensor for y in x.tensors)), None)


def _inside(search: Search, block: Block, place: Place) -> tuple[Place, str, str] | None:
    """The first tensor beyond up to a place, in what it is, and the tensor before it."""
    before = [x for x in block.tensors if x.position <= place.position]
    sides = search.reference, search.other
    there = set[str](x.tensor for x in before)
    for side in sides:
        there &= set(side.has([x.tensor for x in before]))
    common = [x for x in before if x.tensor in there]
    found = measure(
        common, *sides, search.subject, search.samples(), search.ids, search.progress,
        repeat=search.repeat, label="inside the block",
    )  # fmt: skip
    last_good, int8 = "", INT8_KINDS & {side.info.kind for side in sides}
    for entry in common:
        point = found.tallies[entry.tensor].point(entry, found.jitter.get(entry.tensor))
        # The int32 accumulator of an INT8 layer has the name of the float product.
        if point.trouble and int8 and entry.tensor != place.tensor:
            continue
        reason = point.trouble or excess(point, "layer", search.asked)
        if reason:
            return entry, reason, last_good
        last_good = entry.tensor
    return None


def _own(
    search: Search, reference: ModelSide, other: ModelSide, block: Block
) -> tuple[OwnError, ...]:
    """The block's layers alone on the INT8 side; of two INT8 sides, on the other one."""
    kinds = reference.info.kind, other.info.kind
    if not INT8_KINDS & set(kinds):
        return ()
    exact, judged = (reference, other) if kinds[1] in INT8_KINDS else (other, reference)
    inside = {x.tensor for x in block.tensors}
    layers = [x for x in search.subject.record.layers if x.output in inside]
    return own_errors(
        layers, exact, judged, search.subject, search.samples(), search.ids, search.asked,
        search.progress,
    )  # fmt: skip


def _culprit(subject: Subject, found: FirstBeyond, own: Sequence[OwnError]) -> str:
    """Whether a layer is beyond by its own fault, or by that of what comes before it."""
    if not own:
        return ""
    nodes = {x.name: {x.node, x.bias_node} for x in subject.record.layers}
    mine = next((x for x in own if found.node in nodes.get(x.layer, ())), None)
    if mine is None:
        return f"{found.node} is no INT8 layer, and the tensors before it are within the threshold"
    if mine.beyond:
        return f"the fault of {mine.layer} itself: given the reference's input, {mine.beyond}"
    return (
        f"accumulated before {mine.layer}: given the reference's input, its cosine is "
        f"{mine.cosine:.6f}"
    )
