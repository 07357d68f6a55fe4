"""The order in which the tensors of two dumps were computed, as far as anything tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quantflow.artifacts.side_by_side import FirstBeyond, Point
from quantflow.evaluation.bisection import first_point
from quantflow.evaluation.dump_names import tensors_in_dump
from quantflow.evaluation.dumps import Dump
from quantflow.evaluation.pair_verdict import some, worst_first
from quantflow.evaluation.places import Place


def in_order(
    reference: Dump, other: Dump, names: Mapping[str, str], graph: Sequence[Place]
) -> tuple[list[Place], int]:
    """The tensors of both dumps in the order of a dump.json, else of a graph.

    Args:
        reference, other: the dumps.
        names: of the tensors that both have, in the reference, and what the other calls them.
        graph: everything that a run's model computes, in graph order; empty without a run.

    Returns:
        A place for every tensor, and how many of them lead whose order is known.
    """
    if reference.ordered or other.ordered:
        rank = {name: i for i, name in enumerate(other.tensors)}
        first = list(names) if reference.ordered else sorted(names, key=lambda x: rank[names[x]])
        return [Place(x, "tensor", x, position=i) for i, x in enumerate(first)], len(first)
    by_tensor, of_graph = tensors_in_dump(graph, names), dict[str, Place]()
    for place in graph:
        if place.tensor in by_tensor:
            of_graph.setdefault(by_tensor[place.tensor], place)
    known = [
        Place(x, "tensor", x, place.node, place.op_type, i)
        for i, (x, place) in enumerate(of_graph.items())
    ]
    rest = [x for x in names if x not in of_graph]
    return [*known, *(Place(x, "tensor", x) for x in rest)], len(known)


def first_of_dumps(
    places: Sequence[Place], points: Sequence[Point], known: int
) -> tuple[FirstBeyond | None, list[str]]:
    """Where the error of two dumps starts: the first place in order, else the worst one.

    Args:
        places, points: what was measured.
        known: how many of them lead in the order of computation.

    Returns:
        The place, None when nothing is beyond, and a sentence about what has no order.
    """
    beyond = [x for x in points if x.beyond or x.trouble]
    if not beyond:
        return None, []
    number = first_point(places[:known], points)
    if number is None:
        worst = worst_first(beyond)[0]
        first = FirstBeyond(
            point=worst.name, ordered=False, tensor=worst.tensor, reason=_reason(worst)
        )
        return first, [_unordered(places, known)]
    first = FirstBeyond(
        point=points[number].name,
        tensor=places[number].tensor,
        node=places[number].node,
        op_type=places[number].op_type,
        module=places[number].module,
        last_good=places[number - 1].tensor if number else "",
        reason=_reason(points[number]),
    )
    return first, [_unordered(places, known)] if known < len(places) else []


def _reason(point: Point) -> str:
    return point.beyond or point.trouble


def _unordered(places: Sequence[Place], known: int) -> str:
    if not known:
        return (
            "order unknown: there is no dump.json, and no run's graph (--config) that names these "
            "tensors; the worst place is named, which need not be the first"
        )
    names = some([place.name for place in places[known:]])
    return f"order unknown of tensors that the run's graph does not name: {names}"
