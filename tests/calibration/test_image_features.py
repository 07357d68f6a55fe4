"""Features of pictures: worked out by hand, and the same whatever the layout."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantflow.artifacts.model_record import TensorInfo
from quantflow.calibration.features.extract import input_features
from quantflow.calibration.features.images import channel_axis, image_features


def test_a_plain_red_picture_has_brightness_and_tint_and_nothing_else() -> None:
    red = np.zeros((3, 5, 4), np.float32)
    red[0] = 1
    assert image_features(red, "x", 0) == pytest.approx(
        {
            "x.brightness": 0.299,
            "x.contrast": 0,
            "x.sharpness": 0,
            "x.saturation": 1,
            "x.red_green": 1,
            "x.yellow_blue": 0.5,
        }
    )


def test_contrast_and_sharpness_of_a_chessboard_are_known() -> None:
    board = (np.indices((6, 8)).sum(axis=0) % 2).astype(np.float32)
    found = image_features(board[None], "x", 0)
    # Every inner pixel differs from its four neighbours by 1.
    assert found == pytest.approx({"x.brightness": 0.5, "x.contrast": 0.5, "x.sharpness": 4})


def test_a_slope_is_not_sharp() -> None:
    slope = np.tile(np.arange(9.0), (7, 1))
    assert image_features(slope[None], "x", 0)["x.sharpness"] == 0


def test_a_picture_without_inner_pixels_is_not_sharp() -> None:
    assert image_features(np.ones((1, 2, 9)), "x", 0)["x.sharpness"] == 0


@given(seed=st.integers(0, 2**16), gain=st.floats(0.1, 10), offset=st.floats(-5, 5))
def test_features_scale_with_the_units_of_the_input(seed: int, gain: float, offset: float) -> None:
    picture = np.random.default_rng(seed).uniform(-1, 1, (3, 6, 5))
    plain, scaled = image_features(picture, "x", 0), image_features(picture * gain + offset, "x", 0)
    for name, value in plain.items():
        shift = offset if name == "x.brightness" else 0
        assert scaled[name] == pytest.approx(value * gain + shift, abs=1e-9), name


def test_channels_may_come_first_or_last() -> None:
    picture = np.random.default_rng(0).uniform(size=(3, 6, 5))
    assert image_features(picture, "x", 0) == image_features(np.moveaxis(picture, 0, 2), "x", 2)


@pytest.mark.parametrize(
    ("shape", "dtype", "axis"),
    [
        (("batch", 3, 224, 224), "float32", 1),
        (("batch", 3, 48, "width"), "float16", 1),
        (("batch", 1, "height", "width"), "float32", 1),
        (("batch", 28, 28, 1), "uint8", 3),
        (("batch", 3, 224, 3), "float32", None),
        (("batch", 64, 7, 7), "float32", None),
        (("batch", 3, 224, 224), "int64", None),
        (("batch", 3, 100), "float32", None),
    ],
)
def test_a_picture_is_recognised_by_its_shape(
    shape: tuple[int | str, ...], dtype: str, axis: int | None
) -> None:
    assert channel_axis(TensorInfo(name="x", dtype=dtype, shape=shape)) == axis


def test_a_picture_input_is_measured_as_values_and_as_a_picture() -> None:
    info = TensorInfo(name="x", dtype="uint8", shape=("batch", 8, "width", 3))
    sample = {"x": np.full((8, 10, 3), 200, np.uint8)}
    found = input_features(sample, [info])
    assert found["x.brightness"] == pytest.approx(200)
    assert found["x.p50"] == 200
    assert found["width"] == 10
