"""All that is known of the range of one tensor: the tables of `show ranges --layer`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Layer, Layout
from quantflow.artifacts.ranges_record import ClippingReport, ClippingRow, Split, TensorRange
from quantflow.errors import fail
from quantflow.ranges.channel_file import load_channel_absmax
from quantflow.ranges.grid import Histogram
from quantflow.ranges.histogram_file import load_histograms
from quantflow.report.artifacts import Artifacts
from quantflow.report.value_bins import binned

OUTLIERS = 10
"""Channels that are told, those of the largest magnitude."""

BINS = 20
"""Rows of the histogram."""


@dataclass(frozen=True, slots=True)
class TensorStory:
    """One tensor.

    Attributes:
        chosen: the range in force.
        readers: the layers that read the tensor.
        rows: every candidate on both splits.
        histograms: of its values, by split.
        channel_absmax: ``(C,)`` float32 by split, of its C channels.
        padding: where the mask maps to the tensor; None where the model has no mask.
    """

    chosen: TensorRange
    readers: tuple[Layer, ...]
    rows: tuple[ClippingRow, ...]
    histograms: Mapping[Split, Histogram]
    channel_absmax: Mapping[Split, NDArray[np.float32]]
    padding: Layout | None = None

    @property
    def calibrated(self) -> tuple[ClippingRow, ...]:
        """The candidates on the calibration split."""
        return tuple(row for row in self.rows if row.split == "calibration")

    def outliers(self) -> list[tuple[int, float, float | None, float]]:
        """Channel, its absmax on calibration and held-out samples, and times the median channel.

        A profile that stands in for held-out samples knows of no channels: None.
        """
        seen, held = (self.channel_absmax[split] for split in ("calibration", "heldout"))
        known = len(held) > 0
        largest = np.maximum(seen, held) if known else seen
        if not len(largest):
            return []
        order = np.argsort(-largest, kind="stable")[:OUTLIERS]
        typical = max(float(np.median(largest)), float(np.finfo(np.float32).tiny))
        return [
            (int(i), float(seen[i]), float(held[i]) if known else None, float(largest[i]) / typical)
            for i in order
        ]

    def tree(self) -> dict[str, Any]:
        """As a JSON value."""
        edges, counts = binned(self.histograms, BINS)
        return {
            "tensor": self.chosen.tensor,
            "chosen": self.chosen.to_tree(),
            "readers": [layer.to_tree() for layer in self.readers],
            "extremes": {
                split: {
                    "values": hist.count,
                    **{"low": hist.low, "high": hist.high, "absmax": hist.absmax},
                    **{"nan": hist.nan, "inf": hist.inf},
                }
                for split, hist in self.histograms.items()
                if hist.count
            },
            "candidates": [row.to_tree() for row in self.rows],
            "histogram": {
                "edges": edges.tolist(),
                **{split: found.tolist() for split, found in counts.items()},
            },
            "outlier_channels": [
                dict(zip(("channel", "calibration", "heldout", "times_median"), x, strict=True))
                for x in self.outliers()
            ],
        }


def stories(found: Artifacts, tensors: Sequence[str]) -> list[TensorStory]:
    """The stories of some tensors that have a range.

    Raises:
        QuantflowError: QF404 when stage 2 has not run; QF502, QF504 when a file of it is damaged.
    """
    model, ranges, clipping = found.model, found.ranges, found.clipping
    if not (model and ranges and clipping and found.histograms and found.channel_absmax):
        fail(
            "QF404",
            "no current ranges with all their files",
            where="20_ranges",
            fix="run `quantflow calibrate --force`",
        )
    histograms = load_histograms(found.histograms)
    channels = load_channel_absmax(found.channel_absmax)
    layouts: dict[str, Layout] = {entry.tensor: entry.layout for entry in model.padding}
    return [
        TensorStory(
            chosen=chosen,
            readers=tuple(x for x in model.layers if chosen.tensor in (x.input, x.second_input)),
            rows=tuple(row for row in clipping.rows if row.tensor == chosen.tensor),
            histograms={split: x[chosen.tensor] for split, x in histograms.items()},
            channel_absmax={split: x[chosen.tensor] for split, x in channels.items()},
            padding=layouts.get(chosen.tensor),
        )
        for chosen in ranges.ranges
        if chosen.tensor in tensors
    ]


def worst_tensors(report: ClippingReport, count: int) -> list[str]:
    """Tensors whose range in force needs a look: flagged ones first, then least SQNR."""
    chosen = sorted((x for x in report.rows if x.chosen), key=lambda x: (not x.flag, x.sqnr_db))
    return list(dict.fromkeys(row.tensor for row in chosen))[:count]
