"""Segments of a convolutional network give what a fresh graph with the same INT8 groups gives."""

from __future__ import annotations

import numpy as np
import pytest

from .builders import Bench, brute_force, names, padded
from .graphs import convolutions_bench


@pytest.fixture(scope="module")
def found() -> Bench:
    return convolutions_bench()


def test_the_network_has_a_group_a_layer(found: Bench) -> None:
    assert [entry.precision for entry in found.factors] == ["int8"] * 5
    assert len(found.model.segments) > 1


@pytest.mark.parametrize("kept", [0, 1, 2, 3, 4, None])
def test_one_in_and_all_are_those_of_a_fresh_graph(found: Bench, kept: int | None) -> None:
    groups = frozenset(names(found) if kept is None else [names(found)[kept]])
    expected = np.stack([outputs["y"] for outputs in brute_force(found, groups)[:2]])
    got = found.model.run(padded(found.samples[:2], found.dims), groups)["y"]
    assert np.allclose(got, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("kept", range(5))
def test_weights_alone_round_weights_and_activations_alone_leave_them(
    found: Bench, kept: int
) -> None:
    # Either side moves the output, and not where the other one does: they do not share a graph.
    groups, feeds = frozenset([names(found)[kept]]), padded(found.samples[:2], found.dims)
    exact = found.model.run(feeds, frozenset())["y"]
    both, weights, inputs = (
        found.model.run(feeds, groups, side=side)["y"] - exact
        for side in (None, "weights", "activations")
    )
    for moved in (both, weights, inputs):
        assert 0 < np.abs(moved).max() < 0.05 * np.abs(exact).max()
    # What both do is about the sum of what each does, as far as rounding goes.
    assert np.linalg.norm(both - weights - inputs) < 0.7 * np.linalg.norm(both)
