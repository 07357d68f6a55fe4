"""Pictures of text: single lines as a detector cuts them out, and pages of such lines."""

from __future__ import annotations

import colorsys
import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from texts import DATA, Script

SIDE = 480
"""Pixels of a page's side."""
CHINESE_FONT = DATA / "fonts-wqy-microhei/usr/share/fonts/truetype/wqy/wqy-microhei.ttc"
ENGLISH_FONTS = (
    "DejaVuSans",
    "DejaVuSans-Bold",
    "DejaVuSans-Oblique",
    "DejaVuSansMono",
    "DejaVuSerif",
    "DejaVuSerif-Bold",
    "DejaVuSerif-Italic",
)

Colour = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text to draw.

    Attributes:
        text: what it says.
        script: which fonts have its characters.
        seed: of font, size and colours.
    """

    text: str
    script: Script
    seed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """A page to draw.

    Attributes:
        lines: from top to bottom, as many as there is room for.
        seed: of layout and colours.
    """

    lines: tuple[Line, ...]
    seed: tuple[int, ...]


def draw_line(line: Line) -> Image.Image:
    """The line alone, close to its edges, dark on light or light on dark; RGB."""
    rng = np.random.default_rng(line.seed)
    font = _font(line.script, rng, 24, 64)
    left, top, right, bottom = map(round, font.getbbox(line.text))
    margin = rng.integers(1, 8, 2)
    paper, ink = _colours(rng)
    size = (right - left + 2 * int(margin[0]), bottom - top + 2 * int(margin[1]))
    picture = Image.new("RGB", size, paper)
    place = (int(margin[0]) - left, int(margin[1]) - top)
    ImageDraw.Draw(picture).text(place, line.text, ink, font)
    return _photographed(picture, rng)


def draw_page(page: Page) -> Image.Image:
    """A page of `SIDE` by `SIDE` pixels; RGB. Lines below its end are left out."""
    rng = np.random.default_rng(page.seed)
    paper, ink = _colours(rng)
    picture = Image.new("RGB", (SIDE, SIDE), paper)
    draw = ImageDraw.Draw(picture)
    top = float(rng.uniform(5, 60))
    for line in page.lines:
        font = _font(line.script, rng, 14, 44)
        draw.text((float(rng.uniform(5, 120)), top), line.text, ink, font)
        top += font.size * float(rng.uniform(1.3, 2.5))
    return _photographed(picture, rng)


def _photographed(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Slightly blurred, unevenly lit and noisy, as a picture of print is."""
    blurred = picture.filter(ImageFilter.GaussianBlur(float(rng.uniform(0, 1))))
    pixels = np.asarray(blurred, np.float64)
    light = np.linspace(rng.uniform(0.85, 1), rng.uniform(0.85, 1), picture.width)[:, None]
    noise: NDArray[np.float64] = rng.normal(0, rng.uniform(0, 6), pixels.shape)
    return Image.fromarray(np.clip(pixels * light + noise, 0, 255).round().astype(np.uint8))


def _colours(rng: np.random.Generator) -> tuple[Colour, Colour]:
    """Paper and ink, far apart in brightness; every fifth time the paper is the dark one."""
    light = _colour(rng.uniform(), rng.uniform(0, 0.3), rng.uniform(0.75, 1))
    dark = _colour(rng.uniform(), rng.uniform(0, 1), rng.uniform(0, 0.35))
    return (dark, light) if rng.uniform() < 0.2 else (light, dark)


def _colour(hue: float, saturation: float, value: float) -> Colour:
    red, green, blue = colorsys.hsv_to_rgb(hue, saturation, value)
    return round(red * 255), round(green * 255), round(blue * 255)


def _font(
    script: Script, rng: np.random.Generator, smallest: int, largest: int
) -> ImageFont.FreeTypeFont:
    size = int(rng.integers(smallest, largest + 1))
    name = str(rng.choice(ENGLISH_FONTS))
    return _load(CHINESE_FONT if script == "chinese" else _latin_fonts() / f"{name}.ttf", size)


@cache
def _load(file: Path, size: int) -> ImageFont.FreeTypeFont:
    if not file.is_file():
        raise FileNotFoundError(f"the font {file.name} is missing: make data")
    # The basic layout engine is in every build of Pillow.
    return ImageFont.truetype(file, size, layout_engine=ImageFont.Layout.BASIC)


def _latin_fonts() -> Path:
    """The fonts that matplotlib carries."""
    spec = importlib.util.find_spec("matplotlib")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("matplotlib is missing: make env")
    return Path(spec.submodule_search_locations[0]) / "mpl-data" / "fonts" / "ttf"
