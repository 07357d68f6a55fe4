"""Running a model piece by piece, so that of its weights and values few are in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.graph.edit import cut_between
from quantflow.ranges.pieces import Piece
from quantflow.runtime.runner import Feeds, Runner


def run_pieces(
    model: ir.Model,
    pieces: Sequence[Piece],
    make_runner: Callable[[ir.Model], Runner],
    feeds: Sequence[Feeds],
) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
    """Run all feeds through one piece after the other; there is one runner at a time.

    Args:
        model: that the pieces are of.
        pieces: in order.
        make_runner: gives a runner for a model.
        feeds: inputs of the whole model, a batch each.

    Yields:
        Number of the feeds, and what a piece computes of them by name. These values are gone once
        the next ones are asked for.
    """
    held = [dict(each) for each in feeds]
    for number, piece in enumerate(pieces if feeds else ()):
        names = dict.fromkeys((*piece.asked, *piece.hands_on))
        later = {name for other in pieces[number + 1 :] for name in other.reads}
        runner = make_runner(cut_between(model, piece.reads, list(names)))
        for place, values in enumerate(held):
            found = runner.run({name: values[name] for name in piece.reads})
            held[place] = {x: y for x, y in {**values, **found}.items() if x in later}
            yield place, found
            found.clear()
        del runner  # before the next one is made
