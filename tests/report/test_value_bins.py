"""Bins for looking at values cover all of them and lose none."""

from __future__ import annotations

import numpy as np
import pytest

from quantflow.ranges.grid import empty, observe
from quantflow.report.value_bins import binned
from tests.ranges.shapes import adversarial


@pytest.mark.parametrize("name", adversarial())
def test_every_value_is_in_a_bin(name: str) -> None:
    values = adversarial()[name]
    hist = observe(values)
    edges, counts = binned({"calibration": hist, "heldout": empty()}, 20)
    assert (np.diff(edges) > 0).all() and len(edges) == 21
    assert edges[0] <= values.min() and edges[-1] >= values.max() and edges[0] <= 0 <= edges[-1]
    assert counts["calibration"].sum() == pytest.approx(hist.count)
    assert counts["heldout"].sum() == 0
    if hist.absmax < np.finfo(np.float32).tiny:
        return  # the histogram itself does not tell such values apart
    expected = np.histogram(values, edges)[0]
    wide = np.abs(edges[1:] - edges[:-1]) > 0.05 * np.abs(edges[1:])  # than the grid's own bins
    apart = np.abs(np.cumsum(counts["calibration"]) - np.cumsum(expected))[wide]
    assert apart.max(initial=0) <= 0.1 * len(values) + 1


def test_bins_are_narrow_where_most_values_are() -> None:
    values = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    values[0] = 1000
    edges, _ = binned({"calibration": observe(values), "heldout": empty()}, 20)
    assert ((edges > -2) & (edges < 2)).sum() >= 5


def test_without_values_there_are_bins() -> None:
    edges, counts = binned({"calibration": empty(), "heldout": empty()}, 4)
    assert (np.diff(edges) > 0).all() and counts["calibration"].sum() == 0
