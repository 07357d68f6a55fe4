"""Images and other tensors whose channels, or padding, are not where a Transformer has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Layout, Window
from quantflow.errors import QuantflowError
from quantflow.ranges.collect import Collection, collect
from quantflow.ranges.grid import observe
from quantflow.ranges.views import Reading, View
from quantflow.runtime.runner import Feeds
from quantflow.runtime.workers import ALONE, Workers
from tests.distributed.threads import together

THREE = Window(kernel=(3, 3), strides=(2, 2), dilations=(1, 1), pads=(1, 1, 1, 1))
ONE = Window(kernel=(1, 1), strides=(1, 1), dilations=(1, 1), pads=(0, 0, 0, 0))


class Passing:
    """Gives its inputs back, changed as it is told."""

    outputs = ("t",)

    def __init__(self, change: Any = lambda x: x) -> None:
        self._change = change

    def run(self, feeds: Feeds) -> dict[str, NDArray[Any]]:
        return {"t": self._change(feeds["x"])}


def _collect(
    samples: list[dict[str, NDArray[Any]]],
    *,
    change: Any = lambda x: x,
    layout: Layout = "none",
    views: tuple[View, ...] = (),
    channel_axis: int = 1,
    order: list[int] | None = None,
    batch: int = 4,
    rows: int = 9,
    workers: Workers = ALONE,
) -> Collection:
    order = list(range(len(samples))) if order is None else order
    return collect(
        Passing(change),
        [samples[i] for i in order],
        ids=[f"s{i}" for i in order],
        digests=[str(i) for i in order],
        tensors=["t"],
        padding={"t": layout},
        mask_name="mask" if "mask" in samples[0] else None,
        batch=batch,
        rows=rows,
        readings={"t": Reading(channel_axis, views)},
        workers=workers,
    )


def _images(count: int = 7, size: tuple[int, ...] = (3, 6, 5)) -> list[dict[str, NDArray[Any]]]:
    rng = np.random.default_rng(0)
    return [{"x": rng.standard_normal(size).astype(np.float32)} for _ in range(count)]


def _patches(image: NDArray[np.float32]) -> list[bytes]:
    """All 3 x 3 patches with stride 2 of an image in a frame of zeros, by hand."""
    framed = np.zeros((3, 8, 7), np.float32)
    framed[:, 1:-1, 1:-1] = image
    return [
        framed[:, i : i + 3, j : j + 3].tobytes() for i in range(0, 6, 2) for j in range(0, 5, 2)
    ]


def test_channels_of_images_are_their_second_axis() -> None:
    samples = _images()
    samples[2]["x"][1, 0, 0], samples[3]["x"][2, 1, 1] = np.inf, np.nan
    found = _collect(samples).tensors["t"]
    every = np.stack([s["x"] for s in samples])
    finite = np.where(np.isfinite(every), every, 0)
    assert (found.channel_absmax == np.abs(finite).max(axis=(0, 2, 3))).all()
    assert (found.histogram.counts == observe(every).counts).all()
    assert (found.sample_low == finite.min(axis=(1, 2, 3))).all()
    assert (found.sample_high == finite.max(axis=(1, 2, 3))).all()
    assert found.nonfinite_samples == ("s2", "s3")


def test_rows_are_the_patches_and_pixels_that_layers_read() -> None:
    samples = _images()
    found = _collect(samples, views=(THREE, ONE), rows=20).tensors["t"].rows
    patches = {patch for sample in samples for patch in _patches(sample["x"])}
    pixels = {x.tobytes() for s in samples for x in s["x"].reshape(3, -1).T}
    assert found[THREE].shape == (20, 27) and found[ONE].shape == (20, 3)
    assert {row.tobytes() for row in found[THREE]} <= patches
    assert {row.tobytes() for row in found[ONE]} <= pixels
    everything = _collect(samples, views=(THREE,), rows=10**6).tensors["t"].rows[THREE]
    assert {row.tobytes() for row in everything} == patches


@pytest.mark.parametrize("batch", [1, 3, 8])
def test_batches_order_and_workers_do_not_matter(batch: int) -> None:
    samples = _images()
    for i, value in ((1, np.nan), (4, np.inf), (5, -np.inf)):
        samples[i]["x"][0, i % 3, 2] = value
    expected = _collect(samples, views=(THREE, ONE)).tensors["t"]
    order = [3, 6, 0, 2, 5, 1, 4]

    def work(workers: Workers) -> Collection:
        return _collect(samples, views=(THREE, ONE), batch=batch, order=order, workers=workers)

    for collection in [work(ALONE), *together(3, work)]:
        found = collection.tensors["t"]
        assert (found.histogram.counts == expected.histogram.counts).all()
        assert (found.sample_high == expected.sample_high[order]).all()
        for view, rows in expected.rows.items():
            assert np.isfinite(rows).all() and len(rows) == 9
            assert (found.rows[view] == rows).all()


def test_samples_of_different_sizes_are_collected() -> None:
    samples = [*_images(3), *_images(2, (3, 9, 4))]
    found = _collect(samples, views=(THREE,), rows=1000).tensors["t"]
    assert found.histogram.count == sum(s["x"].size for s in samples)
    assert len(found.rows[THREE]) == 3 * 9 + 2 * 10


def _masked(count: int = 7) -> list[dict[str, NDArray[Any]]]:
    """Samples ``(length, width)`` of length 5, whose padding would ruin any range."""
    rng = np.random.default_rng(1)
    samples: list[dict[str, NDArray[Any]]] = []
    for number in range(count):
        mask = (np.arange(5) < 1 + number % 5).astype(np.int64)
        x = rng.standard_normal((5, 4)).astype(np.float32)
        x[mask == 0] = 1e6
        samples.append({"x": x, "mask": mask})
    return samples


def _real(samples: list[dict[str, NDArray[Any]]]) -> NDArray[np.float32]:
    return np.concatenate([s["x"][s["mask"] == 1] for s in samples])


def _heads(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """``(batch, length, 4)`` as ``(batch, heads, length, 2)``."""
    return x.reshape(len(x), 5, 2, 2).transpose(0, 2, 1, 3)


MAPPED: Mapping[str, tuple[Any, Layout, int]] = {
    "channels first": (lambda x: x.transpose(0, 2, 1), (0, 2), 1),
    "length first": (lambda x: x.transpose(1, 0, 2), (1, 0), -1),
    "heads": (_heads, (0, 2), -1),
    "keys": (lambda x: _heads(x).transpose(0, 1, 3, 2), (0, 3), -1),
    "heads and batch as one": (lambda x: _heads(x).reshape(-1, 5, 2), (0, 1), -1),
}


@pytest.mark.parametrize("name", MAPPED)
def test_padding_is_left_out_wherever_its_axis_is(name: str) -> None:
    change, layout, channel_axis = MAPPED[name]
    samples = _masked()
    found = _collect(samples, change=change, layout=layout, channel_axis=channel_axis)
    tensor = found.tensors["t"]
    assert (tensor.histogram.counts == observe(_real(samples)).counts).all()
    for index, sample in enumerate(samples):
        real = sample["x"][sample["mask"] == 1]
        assert (tensor.sample_low[index], tensor.sample_high[index]) == (real.min(), real.max())
    assert tensor.channel_absmax.max() == np.abs(_real(samples)).max()
    assert (tensor.channel_absmax < 1e6).all()


def test_products_of_two_lengths_count_where_both_are_real() -> None:
    def scores(x: NDArray[np.float32]) -> NDArray[np.float32]:
        return x[:, :, :1] @ x[:, :, :1].transpose(0, 2, 1)

    samples = _masked()
    found = _collect(samples, change=scores, layout=(0, 1, 2), channel_axis=-1).tensors["t"]
    single = [s["x"][s["mask"] == 1][:, :1] for s in samples]
    expected = np.concatenate([(x @ x.T).ravel() for x in single])
    assert (found.histogram.counts == observe(expected).counts).all()


def test_patches_of_padded_sequences_have_their_middle_in_the_text() -> None:
    three = Window(kernel=(3,), strides=(1,), dilations=(1,), pads=(1, 1))
    samples = _masked()
    found = _collect(
        samples,
        change=lambda x: x.transpose(0, 2, 1),
        layout=(0, 2),
        views=(three,),
        rows=1000,
    )
    rows = found.tensors["t"].rows[three].reshape(-1, 4, 3)
    assert {row[:, 1].tobytes() for row in rows} == {x.tobytes() for x in _real(samples)}


def test_a_tensor_that_does_not_fit_its_layout_is_refused() -> None:
    with pytest.raises(QuantflowError, match="QF501"):
        _collect(_masked(), layout=(0, 2))


def test_the_fields_with_the_highest_and_lowest_middles_are_kept() -> None:
    samples = _images()
    found = _collect(samples, views=(THREE,), rows=10).tensors["t"]
    every = _collect(samples, views=(THREE,), rows=10**6).tensors["t"].rows[THREE]
    middles = every.reshape(len(every), -1, 9)[:, :, 4]
    high, low = found.farthest[THREE]
    tops = np.sort(middles.max(axis=1))[::-1][:10]
    bottoms = np.sort(middles.min(axis=1))[:10]
    assert (high.reshape(10, -1, 9)[:, :, 4].max(axis=1) == tops).all()
    assert (low.reshape(10, -1, 9)[:, :, 4].min(axis=1) == bottoms).all()
    assert found.row_counts[THREE] == len(every)
