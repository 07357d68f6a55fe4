"""Two dumps, tensor by tensor: no model, no samples and no padding that could be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from quantflow.evaluation.measuring import Measured
from quantflow.evaluation.sides import DumpSide
from quantflow.evaluation.tally import Tally
from quantflow.progress import Progress


def measure_dumps(
    reference: DumpSide,
    other: DumpSide,
    names: Mapping[str, str],
    progress: Progress,
    limit: int | None = None,
) -> Measured:
    """Compare what two dumps both hold, tensor by tensor.

    Every entry along an array's first axis counts as a sample, called ``[0]`` and so on; an array
    with a single axis is one sample.

    Args:
        reference, other: the dumps.
        names: of the tensors in the reference, and what the other calls them.
        progress: called after every tensor.
        limit: most entries of an array.
    """
    tallies, most = dict[str, Tally](), 0
    for done, (name, second) in enumerate(names.items(), 1):
        tallies[name] = _tally_of(reference.dump.read(name), other.dump.read(second), limit)
        most = max(most, tallies[name].samples)
        progress("comparing the dumps", done, len(names))
    return Measured(tallies, {}, most)


def _tally_of(a: NDArray[Any], b: NDArray[Any], limit: int | None) -> Tally:
    tally = Tally()
    if a.shape != b.shape:
        tally.trouble = f"shapes differ: {b.shape}, {a.shape} in the reference"
        return tally
    first, second = (x if x.ndim > 1 else x.reshape(1, -1) for x in (a, b))
    tally.add_entries(first[: limit or None], second[: limit or None])
    return tally
