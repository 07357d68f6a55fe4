"""Tables of every layer's error sample by sample."""

from __future__ import annotations

from math import isnan

from quantflow.artifacts.comparison import Comparison, LayerError
from quantflow.report.sheet import Sheet, db_text

WORST_CELLS = 15
"""Layers on samples that are listed one by one."""


def measured_by_sample(comparison: Comparison) -> bool:
    """Whether some layer has a figure of a sample of its own."""
    found = [value for layer in comparison.layers for value in layer.sample_sqnr_db]
    return bool(found) and not all(map(isnan, found))


def worst_cells_sheet(comparison: Comparison) -> Sheet:
    """The layers and samples with the least SQNR; of a tie, the first layer's."""
    cells = [
        (value, layer, sample)
        for layer in comparison.layers
        for sample, value in zip(comparison.layer_samples, layer.sample_sqnr_db, strict=False)
        if not isnan(value)
    ]
    cells.sort(key=lambda cell: cell[0])
    rows = [_cell_row(*cell) for cell in cells[:WORST_CELLS]]
    head = ("layer", "sample", "SQNR dB", "SQNR dB of all")
    note = (
        f"Of {len(cells)} figures: {len(comparison.layers)} layers on "
        f"{len(comparison.layer_samples)} samples. All errors from the input on count."
    )
    return Sheet("Worst layers and samples", head, "llrr", tuple(rows), note)


def _cell_row(value: float, layer: LayerError, sample: str) -> tuple[str, ...]:
    return layer.layer, sample, db_text(value), db_text(layer.sqnr_db)


def sample_errors_sheet(comparison: Comparison) -> Sheet:
    """All figures of the map: a row a layer in graph order, a column a sample."""
    places = range(len(comparison.layer_samples))
    rows = [
        (x.layer, *(_value_text(x.sample_sqnr_db, place) for place in places))
        for x in comparison.layers
    ]
    named = (f"{place}: {name}" for place, name in enumerate(comparison.layer_samples, 1))
    return Sheet(
        "SQNR in dB by layer and sample",
        ("layer", *(str(place + 1) for place in places)),
        "l" + "r" * len(places),
        tuple(rows),
        f"Samples: {', '.join(named)}.",
    )


def _value_text(values: tuple[float, ...], place: int) -> str:
    value = values[place] if place < len(values) else float("nan")
    return "-" if isnan(value) else db_text(value)
