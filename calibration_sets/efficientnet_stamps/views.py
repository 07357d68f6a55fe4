"""Views of a picture with a transparent background: parts of it before plain colours."""

from __future__ import annotations

import colorsys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

SIDE = 224
"""Pixels of a view's side."""
ATTEMPTS = 10
"""Squares to try before the whole picture is taken."""
LEAST_OPAQUE = 0.25
"""Share of a view that the picture must cover, 0-1."""


@dataclass(frozen=True, slots=True)
class View:
    """One of the views of a picture.

    Attributes:
        path: of the picture.
        picture: its number, which seeds the view.
        number: of the view. 0 shows the whole picture, all others a square of it.
    """

    path: Path
    picture: int
    number: int

    @property
    def filename(self) -> str:
        """What reports call it: the file's name and the view's number."""
        return f"{self.path.stem}-{self.number}{self.path.suffix}"


def render(view: View) -> Image.Image:
    """The view as an RGB picture of `SIDE` pixels; the same for the same view, always."""
    rng = np.random.default_rng([view.picture, view.number])
    with Image.open(view.path) as file:
        picture = file.convert("RGBA")
    square = picture.crop(_whole(picture) if view.number == 0 else _part(picture, rng))
    background = Image.new("RGBA", square.size, _colour(rng))
    background.alpha_composite(square)
    return background.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC)


def _whole(picture: Image.Image) -> tuple[int, int, int, int]:
    """A square around the picture, with a margin of a sixteenth; outside it is transparent."""
    side = max(picture.size) * 9 // 8
    left, top = (picture.width - side) // 2, (picture.height - side) // 2
    return left, top, left + side, top + side


def _part(picture: Image.Image, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """A random square, 0.4 to 1.1 times as large as the picture, that shows enough of it."""
    opaque = np.asarray(picture.getchannel("A")) > 127
    for _ in range(ATTEMPTS):
        side = max(1, round(max(picture.size) * rng.uniform(0.4, 1.1)))
        left = round(rng.uniform(0.2, 0.8) * picture.width - side / 2)
        top = round(rng.uniform(0.2, 0.8) * picture.height - side / 2)
        rows, columns = slice(max(top, 0), top + side), slice(max(left, 0), left + side)
        if opaque[rows, columns].sum() >= LEAST_OPAQUE * side * side:
            return left, top, left + side, top + side
    return _whole(picture)


def _colour(rng: np.random.Generator) -> tuple[int, int, int, int]:
    """A background: any hue, mostly pale, from dark to white."""
    hue, saturation, value = rng.uniform(), rng.uniform() ** 2 * 0.7, rng.uniform(0.15, 1)
    red, green, blue = colorsys.hsv_to_rgb(hue, saturation, value)
    return round(red * 255), round(green * 255), round(blue * 255), 255
