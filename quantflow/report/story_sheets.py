"""The story of one tensor as tables: who reads it, its values, the candidates, the outliers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.ranges_record import ClippingReport
from quantflow.report.range_sheets import candidates_sheet
from quantflow.report.sheet import Sheet, count_text, number_text
from quantflow.report.tensor_story import BINS, TensorStory
from quantflow.report.value_bins import binned

_BAR = 32
"""Characters of the longest bar."""


def story_sheets(story: TensorStory, previews: Mapping[str, str]) -> Iterator[Sheet]:
    """All tables of a tensor.

    Args:
        story: of the tensor.
        previews: a few words of the samples, by id.
    """
    yield _facts(story)
    yield _extremes(story)
    yield candidates_sheet(ClippingReport(rows=story.rows), story.chosen.tensor)
    yield _histogram(story)
    yield _outliers(story)
    yield _worst_samples(story, previews)


def _facts(story: TensorStory) -> Sheet:
    chosen = story.chosen
    scale, zero = number_text(chosen.params.scale), chosen.params.zero_point
    bounds = f"{number_text(chosen.low)} to {number_text(chosen.high)}"
    readers = [f"{layer.name} ({layer.float_reason or layer.role})" for layer in story.readers]
    rows = (
        *(("read by", reader) for reader in readers),
        ("range in force", f"{bounds}, of {chosen.estimator}"),
        ("why", chosen.reason or "as configured"),
        ("quantized with", f"scale {scale}, zero point {zero}"),
        *_padding(story),
    )
    return Sheet(f"Range of {chosen.tensor}", ("", ""), "ll", rows)


def _padding(story: TensorStory) -> Iterator[tuple[str, str]]:
    if story.padding is None:
        return
    mapped = "left out" if story.padding != "none" else "the mask does not map to this tensor"
    yield "padding", mapped


def _extremes(story: TensorStory) -> Sheet:
    rows = [
        (
            split,
            count_text(hist.count),
            number_text(hist.low),
            number_text(hist.high),
            number_text(hist.absmax),
            count_text(hist.nonfinite),
        )
        for split, hist in story.histograms.items()
    ]
    head = ("split", "values", "lowest", "highest", "absmax", "not finite")
    return Sheet("Values", head, "lrrrrr", tuple(rows))


def _histogram(story: TensorStory) -> Sheet:
    edges, counts = binned(story.histograms, BINS)
    seen, held = counts["calibration"], counts["heldout"]
    bars, bounds = _bars(seen), _bounds(story, edges)
    rows = [
        (
            number_text(edges[i]),
            number_text(edges[i + 1]),
            count_text(round(seen[i])),
            bars[i],
            count_text(round(held[i])),
            bounds[i],
        )
        for i in range(BINS)
    ]
    head = ("from", "to", "calibration", "log scale", "held-out", "bounds")
    note = "Bins grow towards the tails. < is a lower, > an upper bound, * the range in force."
    return Sheet("Histogram", head, "rrrlrl", tuple(rows), note)


def _bars(counts: NDArray[np.float64]) -> list[str]:
    """Bars of the logarithm; what is not empty has one."""
    logs = np.log1p(np.rint(counts))
    lengths = np.ceil(_BAR * logs / max(float(logs.max(initial=0.0)), 1.0)).astype(int)
    return ["█" * int(length) for length in lengths]


def _bounds(story: TensorStory, edges: NDArray[np.float64]) -> list[str]:
    """What to write beside each bin: the bounds that lie in it."""
    marks: list[list[str]] = [[] for _ in range(len(edges) - 1)]
    bounds = [
        (bound, f"{sign}{row.candidate}{'*' if row.chosen else ''}")
        for row in story.calibrated
        for sign, bound in (("<", row.low), (">", row.high))
        if bound  # the empty side of one-sided values
    ]
    for bound, text in sorted(bounds):
        place = int(np.searchsorted(edges, bound, side="right")) - 1
        marks[min(max(place, 0), len(marks) - 1)].append(text)
    return [" ".join(texts) for texts in marks]


def _outliers(story: TensorStory) -> Sheet:
    rows = [
        (str(channel), number_text(seen), _or_dash(held), f"{times:.2f}")
        for channel, seen, held, times in story.outliers()
    ]
    head = ("channel", "absmax, calibration", "absmax, held-out", "times the median channel")
    count = len(story.channel_absmax["calibration"])
    note = f"The {len(rows)} largest of {count} channels."
    return Sheet("Outlier channels", head, "rrrr", tuple(rows), note)


def _or_dash(value: float | None) -> str:
    return "-" if value is None else number_text(value)


def _worst_samples(story: TensorStory, previews: Mapping[str, str]) -> Sheet:
    rows = [
        (row.split, sample, previews.get(sample, ""))
        for row in story.rows
        if row.chosen
        for sample in row.worst_samples
    ]
    note = "Samples that reach furthest beyond, or closest to, the range in force."
    return Sheet("Worst samples", ("split", "sample", "begins with"), "lll", tuple(rows), note)
