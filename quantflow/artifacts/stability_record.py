"""How far ranges move from one calibration set to another (`20_ranges/stability.json`)."""

from __future__ import annotations

from quantflow.artifacts.record import Record


class StabilityRow(Record):
    """The width of one tensor's range, zero included, on random subsets of the calibration set.

    Attributes:
        tensor, group: what.
        spreads: for each of `StabilityReport.sizes`, by how much the widths of two random subsets
            of so many samples differ, at most, in 95% of the draws; relative to the width on all
            samples, 0-1.
        expected: the same for two whole sets of as many samples as there are, extrapolated.
        enough: how many samples keep the spread within the threshold; None when more than there
            are.
    """

    tensor: str
    group: str
    spreads: tuple[float, ...]
    expected: float
    enough: int | None


class StabilityReport(Record):
    """Whether other subsets of the calibration set would have given the same ranges.

    Fresh samples may move a range further: what the set lacks, no subset shows.

    Attributes:
        reasons: a sentence where the set is too small.
        samples: calibration samples.
        draws: pairs of subsets that were compared for every size.
        threshold: spread that counts as stable, 0-1.
        sizes: of the subsets, ascending; none where there are too few samples for any.
        median, largest: over the tensors, the spread of every size and, last, the one expected of
            all samples.
        enough: how many samples keep the spread of every tensor within the threshold; None when
            more than there are.
        rows: in graph order.
    """

    reasons: tuple[str, ...]
    samples: int
    draws: int
    threshold: float
    sizes: tuple[int, ...]
    median: tuple[float, ...]
    largest: tuple[float, ...]
    enough: int | None
    rows: tuple[StabilityRow, ...]
