"""Segments of a convolutional network give what a fresh graph with the same INT8 groups gives."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph.models import build, rand

from .builders import bench, brute_force, names


def network():
    """Stem, depthwise and pointwise layers with a residual, upsampling, and a classifier."""
    return build(
        """(float[batch,3,8,8] x) => (float[batch,5] y) {
        a = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w0, b0) r = Relu(a)
        d = Conv<group=6, auto_pad="SAME_UPPER">(r, w1) e = Clip(d, low, high)
        p = Conv(e, w2, b2) s = Add(p, r)
        t = ConvTranspose<strides=[2,2], group=2>(s, w3, b3) u = HardSwish(t)
        m = GlobalAveragePool(u) f = Flatten(m) y = Gemm(f, w4, b4) }""",
        {
            "w0": rand(6, 3, 3, 3), "b0": rand(6), "w1": rand(6, 1, 3, 3), "w2": rand(6, 6, 1, 1),
            "b2": rand(6, seed=1), "w3": rand(6, 2, 2, 2), "b3": rand(4), "w4": rand(4, 5),
            "b4": rand(5), "low": np.float32(0), "high": np.float32(6),
        },
    )  # fmt: skip


@pytest.fixture(scope="module")
def found():
    samples = [{"x": rand(3, 8, 8, seed=i)} for i in range(4)]
    return bench(network(), samples, {"batch": 2})


def test_the_network_has_a_group_a_layer(found):
    assert [entry.precision for entry in found.factors] == ["int8"] * 5
    assert len(found.model.segments) > 1


@pytest.mark.parametrize("kept", [0, 1, 2, 3, 4, None])
def test_one_in_and_all_are_those_of_a_fresh_graph(found, kept):
    groups = frozenset(names(found) if kept is None else [names(found)[kept]])
    expected = brute_force(found, groups)
    for batch, outputs in zip(found.probe.batches, expected, strict=True):
        got = found.model.run(batch.feeds, groups)
        assert np.allclose(
            got["y"], outputs["y"], rtol=1e-4, atol=1e-4 * np.abs(outputs["y"]).max()
        )
