"""Rows of a view, multiplied by a layer's weight, are the layer."""

from __future__ import annotations

import numpy as np
import pytest

from quantflow.ranges.auto import Trial, output_errors
from quantflow.ranges.bounds import Bounds
from quantflow.ranges.fields import fields_of, real_fields
from quantflow.ranges.part import Part
from quantflow.ranges.views import Reading, reader, reading_of, view_of

from .convolutions import KINDS, Floats, convolve, draw, layer


def _rows(one: object, images: Floats) -> Floats:
    view = view_of(one)  # pyright: ignore[reportArgumentType]
    assert view is not None
    fields = fields_of(Part(images[:, None]), view)
    return fields.take(np.arange(len(images) * int(np.prod(fields.outputs))))


def _quantized(values: Floats, scale: Floats | float, zero: int, lowest: int) -> Floats:
    level = np.clip(np.rint(values / scale) + zero, lowest, 127)
    return ((level - zero) * scale).astype(np.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_receptive_fields_times_the_weight_are_the_convolution(kind: str) -> None:
    one, shape, weight_shape = KINDS[kind]
    images, weight = draw((3, *shape), 1), draw(weight_shape, 2)
    expected = convolve(one, images, weight)  # (n, N, ...)
    rows, read = _rows(one, images), reader(one, weight, per_channel=True)
    groups = len(read.weight)
    parts = rows.reshape(len(rows), groups, -1)
    found = np.einsum("rgk,gkn->rgn", parts, read.weight).reshape(len(rows), -1)
    by_position = np.moveaxis(expected, 1, -1).reshape(len(rows), -1)
    np.testing.assert_allclose(found, by_position, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_output_errors_are_those_of_the_quantized_convolution(kind: str) -> None:
    one, shape, weight_shape = KINDS[kind]
    images, weight = draw((3, *shape), 3), draw(weight_shape, 4)
    channels = tuple(range(1, weight.ndim))
    scales = np.abs(weight).max(axis=channels, keepdims=True) / np.float32(127)
    exact = convolve(one, images, weight)
    candidates = {"minmax": Bounds(float(images.min()), float(images.max())), "kl": Bounds(-2, 1.5)}
    trial = Trial(_rows(one, images), [reader(one, weight, per_channel=True)])
    found = output_errors([trial], candidates, symmetric=False)
    for name, (low, high) in candidates.items():
        step = (high - low) / 255
        inputs = _quantized(images, step, round(-128 - low / step), -128)
        noise = convolve(one, inputs, _quantized(weight, scales, 0, -127)) - exact
        relative = (noise**2).sum(axis=1) / (exact**2).sum(axis=1)
        assert found[name] == pytest.approx(relative.mean(), rel=2e-3)


@pytest.mark.parametrize("groups", [1, 2])
def test_rows_of_a_transposed_convolution_are_its_pixels(groups: int) -> None:
    shape = (4, 3, 2, 3)  # (C, N / groups, kernel)
    one = layer("ConvTranspose", shape, groups=groups, strides=(2, 2))
    images, weight = draw((2, 4, 5, 3), 5), draw(shape, 6)
    rows = _rows(one, images)
    assert (rows == np.moveaxis(images, 1, -1).reshape(-1, 4)).all()
    # Each pixel as an image of its own, so that no two of them overlap in the output.
    pixels = rows[:, :, None, None]
    exact = convolve(one, pixels, weight)  # (rows, N, kernel)
    scales = np.abs(weight).reshape(groups, 4 // groups, 3, 2, 3).max(axis=(1, 3, 4))
    scales = np.repeat(scales, 4 // groups, axis=0)[:, :, None, None] / np.float32(127)
    low, high = float(images.min()), float(images.max())
    step = (high - low) / 255
    inputs = _quantized(pixels, step, round(-128 - low / step), -128)
    noise = convolve(one, inputs, _quantized(weight, scales, 0, -127)) - exact
    relative = (noise**2).sum(axis=(1, 2, 3)) / (exact**2).sum(axis=(1, 2, 3))
    trial = Trial(rows, [reader(one, weight, per_channel=True)])
    found = output_errors([trial], {"minmax": Bounds(low, high)}, symmetric=False)
    assert found["minmax"] == pytest.approx(relative.mean(), rel=2e-3)


def test_readers_with_different_windows_are_all_heard() -> None:
    images = draw((3, 4, 6, 6), 7)
    small, large = layer("Conv", (5, 4, 1, 1)), layer("Conv", (3, 4, 3, 3), pads=(1, 1, 1, 1))
    candidates = {"minmax": Bounds(-9, 9), "kl": Bounds(-2, 2)}
    trials = [
        Trial(_rows(one, images), [reader(one, draw(shape, 8), per_channel=True)])
        for one, shape in ((small, (5, 4, 1, 1)), (large, (3, 4, 3, 3)))
    ]
    alone = [output_errors([trial], candidates, symmetric=True) for trial in trials]
    both = output_errors(trials, candidates, symmetric=True)
    for name, error in both.items():
        assert error == pytest.approx((alone[0][name] + alone[1][name]) / 2)


def test_readers_with_one_window_make_one_output() -> None:
    images, shape = draw((2, 4, 5, 5), 9), (4, 1, 3, 3)
    dense, deep = layer("Conv", (6, 4, 3, 3)), layer("Conv", shape, groups=4)
    weights = draw((6, 4, 3, 3), 10), draw(shape, 11)
    assert view_of(dense) == view_of(deep)
    # A depthwise weight as a dense one, which is zero between channels.
    spread = np.zeros((4, 4, 3, 3), np.float32)
    spread[np.arange(4), np.arange(4)] = weights[1][:, 0]
    rows, candidates = _rows(dense, images), {"minmax": Bounds(-4, 3), "kl": Bounds(-1, 1)}
    pair = [reader(one, w, per_channel=True) for one, w in zip((dense, deep), weights, strict=True)]
    whole = [reader(dense, np.concatenate([weights[0], spread]), per_channel=True)]
    found, expected = (
        output_errors([Trial(rows, readers)], candidates, symmetric=False)
        for readers in (pair, whole)
    )
    for name, error in expected.items():
        assert found[name] == pytest.approx(error, rel=1e-5)


def test_layers_ask_for_their_channels_and_views() -> None:
    dense = layer("Conv", (6, 4, 3, 3))
    up = layer("ConvTranspose", (4, 2, 2, 2), strides=(2, 2))
    pool = dense.model_copy(update={"weight": "", "op_type": "AveragePool"})
    product = dense.model_copy(update={"op_type": "MatMul", "window": None})
    assert reading_of([dense, dense]) == Reading(1, (view_of(dense),))
    assert reading_of([dense, up]).views == (view_of(dense), view_of(up))
    assert reading_of([pool]) == Reading(1, ())
    assert reading_of([product]) == Reading(-1, (None,))
    assert reading_of([]) == Reading(-1, ())


def test_fields_count_where_the_middle_of_the_window_is_no_padding() -> None:
    one = layer("Conv", (2, 1, 3), pads=(1, 1))
    real = np.array([[[[1, 1, 1, 0, 0]]], [[[1, 1, 1, 1, 1]]]], bool)
    part = Part(np.zeros((2, 1, 1, 5), np.float32), real)
    view = view_of(one)
    assert view is not None
    found = real_fields(part, fields_of(part, view))
    assert found is not None and found.tolist() == real[:, 0, 0].tolist()
    strided = view.model_copy(update={"strides": (2,)})
    found = real_fields(part, fields_of(part, strided))
    assert found is not None and found.tolist() == [[True, True, False], [True, True, True]]


def test_an_image_smaller_than_the_window_has_no_fields() -> None:
    assert _rows(layer("Conv", (2, 3, 5, 5)), draw((2, 3, 4, 9), 0)).shape == (0, 75)
