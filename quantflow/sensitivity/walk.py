"""Going through a model segment by segment, so that what comes before a group is computed once."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from quantflow.artifacts.scratch import ArrayFile
from quantflow.sensitivity.probe import Probe
from quantflow.sensitivity.segmented_model import SegmentedModel, Values


class States:
    """What is alive before a segment, for every batch; on disk."""

    def __init__(self) -> None:
        self._file = ArrayFile()
        self._names = dict[int, tuple[str, ...]]()

    def put(self, number: int, values: Values) -> None:
        """Keep the state of a batch."""
        self._names[number] = tuple(values)
        for name, array in values.items():
            self._file.add((number, name), array)

    def get(self, number: int) -> Values:
        """The state of a batch, read anew."""
        return {name: self._file[number, name] for name in self._names[number]}


def walk(
    model: SegmentedModel,
    probe: Probe,
    part: range,
    groups: Collection[str],
    int8: frozenset[str],
) -> Iterator[tuple[str, int, States]]:
    """Groups in graph order, each with the state before the segment that it lies in.

    Args:
        model: in segments.
        probe: has the batches.
        part: numbers of the batches.
        groups: which groups are wanted; the walk ends with the last of them.
        int8: names of the groups in INT8 on the way.

    Yields:
        Group, number of its segment, state of this worker's batches.
    """
    left = set(groups)
    states = States()
    for number in probe.own(part):
        states.put(number, probe.feeds(number))
    for index, segment in enumerate(model.segments):
        for group in segment.groups:
            if group in left:
                left.remove(group)
                yield group, index, states
        if not left:
            return
        after = States()
        for number in probe.own(part):
            after.put(number, model.step(states.get(number), index, int8))
        states = after
