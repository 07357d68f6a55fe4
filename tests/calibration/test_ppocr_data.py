"""Text to read: no text in two sets, pictures that are the same every time, pixels as asked for."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantflow.config import load_config
from quantflow.user_code import load_function

Image = pytest.importorskip("PIL.Image")
FOLDER = Path(__file__).parents[2] / "calibration_sets" / "ppocr"
DATA = FOLDER.parents[1] / "runs" / "data"
with_data = pytest.mark.skipif(not (DATA / "fortunes-zh").is_dir(), reason="make data")


def _call(name: str, *arguments: Any, **options: Any) -> Any:
    return load_function(name, FOLDER)(*arguments, **options)


def _line(text: str, seed: int = 0) -> Any:
    return _call("drawing:Line", text, "english", seed=(seed,))


def test_a_line_has_the_recognisers_height_and_is_filled_up_with_zeros() -> None:
    pixels = _call("data:line_pixels", {"line": _line("it")})["x"]
    assert pixels.shape == (3, 48, 320) and pixels.dtype == np.float32
    assert np.abs(pixels).max() <= 1
    filled = np.flatnonzero(np.abs(pixels).sum(axis=(0, 1)))
    assert 10 < filled.max() < 160
    assert not pixels[:, :, filled.max() + 1 :].any()


def test_a_line_that_is_too_long_is_narrowed() -> None:
    pixels = _call("data:line_pixels", {"line": _line("as long as a line of print can be")})["x"]
    assert np.abs(pixels[:, :, -1]).sum() > 0


def test_channels_are_blue_green_red() -> None:
    red = Image.new("RGB", (4, 2), (255, 0, 51))
    pixels = _call("data:_normalized", red)
    assert pixels[:, 0, 0] == pytest.approx([51 / 255 * 2 - 1, -1, 1])


def test_ink_and_paper_are_far_apart_and_pictures_are_the_same_every_time() -> None:
    for seed in range(8):
        line = _line("legible", seed)
        gray = np.asarray(_call("drawing:draw_line", line).convert("L"), np.float64)
        assert np.ptp(gray) > 60
        again = np.asarray(_call("drawing:draw_line", line).convert("L"), np.float64)
        assert np.array_equal(gray, again)


def test_a_page_has_the_detectors_size() -> None:
    page = _call("drawing:Page", (_line("one"), _line("two")), seed=(0,))
    assert _call("data:page_pixels", {"page": page})["x"].shape == (3, 480, 480)


@with_data
def test_no_text_is_in_two_sets_but_for_a_few_common_phrases() -> None:
    names = ("candidate", "deployment", "evaluation")
    lines = [{x["text"] for x in _call(f"data:{name}_lines")} for name in names]
    assert min(map(len, lines)) > 395
    assert len(lines[0] & lines[1]) + len(lines[0] & lines[2]) + len(lines[1] & lines[2]) <= 12
    chinese = sum(any(c >= "\u4e00" for c in text) for part in lines for text in part)
    assert chinese == pytest.approx(600, abs=10)


@with_data
def test_markup_and_titles_are_dropped_from_the_verse() -> None:
    texts = _call("texts:snippets", "chinese", 0)
    assert len(texts) > 1000
    assert not any(c in text for text in texts for c in "\x1b《》%0123")


@with_data
def test_pages_hold_the_lines_in_order() -> None:
    pages = _call("data:evaluation_pages")
    assert len(pages) == 120
    assert all(len(page["page"].lines) == 10 for page in pages)
    assert pages[3]["text"].splitlines() == [line.text for line in pages[3]["page"].lines]


@pytest.mark.parametrize("name", ["recogniser", "detector"])
def test_the_configuration_is_valid_and_its_functions_exist(name: str) -> None:
    if importlib.util.find_spec("rapidocr_onnxruntime") is None:
        pytest.skip("make models")
    config = load_config(FOLDER / f"{name}.toml").config
    for source in (config.set.candidates, config.set.deployment, config.set.evaluation):
        assert source is not None and source.function is not None
        assert callable(load_function(source.function, FOLDER))
