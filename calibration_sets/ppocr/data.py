"""Records of the sets: lines of text for the recogniser, pages of such lines for the detector.

No text is in two of the three sources. Pictures are drawn when they are asked for, the same ones
every time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from drawing import Line, Page, draw_line, draw_page
from numpy.typing import NDArray
from PIL import Image
from texts import Script, snippets

Record = dict[str, Any]
Pixels = NDArray[np.float32]

LINES = 400
"""Lines of a source, half of them Chinese."""
PAGES = 120
"""Pages of a source."""
LINES_OF_PAGE = 10
HEIGHT, WIDTH = 48, 320
"""Of the recogniser's input, in pixels."""
SCRIPTS: tuple[Script, Script] = ("english", "chinese")


def candidate_lines() -> list[Record]:
    """At hand for calibration: records with `text` and the `line` to draw."""
    return _lines(0)


def deployment_lines() -> list[Record]:
    """What stands for production: lines from other texts."""
    return _lines(1)


def evaluation_lines() -> list[Record]:
    """What accuracy is measured on: lines from yet other texts."""
    return _lines(2)


def candidate_pages() -> list[Record]:
    """At hand for calibration: records with `text` and the `page` to draw."""
    return _pages(0)


def deployment_pages() -> list[Record]:
    """What stands for production: pages of other texts."""
    return _pages(1)


def evaluation_pages() -> list[Record]:
    """What accuracy is measured on: pages of yet other texts."""
    return _pages(2)


def line_pixels(record: Record) -> dict[str, Pixels]:
    """The recogniser's input, ``(3, HEIGHT, WIDTH)``, as PP-OCR makes it of a line.

    Scaled to the height, narrowed where it is too long, and filled up with zeros to the right.
    """
    line = draw_line(record["line"])
    width = min(math.ceil(HEIGHT * line.width / line.height), WIDTH)
    filled = np.zeros((3, HEIGHT, WIDTH), np.float32)
    filled[:, :, :width] = _normalized(line.resize((width, HEIGHT), Image.Resampling.BILINEAR))
    return {"x": filled}


def page_pixels(record: Record) -> dict[str, Pixels]:
    """The detector's input, ``(3, SIDE, SIDE)``."""
    return {"x": _normalized(draw_page(record["page"]))}


def _normalized(picture: Image.Image) -> Pixels:
    """Blue, green and red as ``(x / 255 - 0.5) / 0.5``, channels first."""
    bgr = np.asarray(picture, np.float32)[:, :, ::-1]
    scaled = (bgr / np.float32(255) - np.float32(0.5)) / np.float32(0.5)
    return np.ascontiguousarray(scaled.transpose(2, 0, 1))


def _lines(part: int) -> list[Record]:
    return [{"text": line.text, "line": line} for line in _drawn(part, LINES)]


def _pages(part: int) -> list[Record]:
    lines = _drawn(part, PAGES * LINES_OF_PAGE)
    pages = [lines[i : i + LINES_OF_PAGE] for i in range(0, len(lines), LINES_OF_PAGE)]
    return [
        {"text": "\n".join(line.text for line in page), "page": Page(page, seed=(part, number))}
        for number, page in enumerate(pages)
    ]


def _drawn(part: int, count: int) -> tuple[Line, ...]:
    """Lines of a part, English and Chinese ones in turn, spread evenly over its texts."""
    texts = {script: snippets(script, part) for script in SCRIPTS}
    found: list[Line] = []
    for number in range(count):
        script = SCRIPTS[number % len(SCRIPTS)]
        text = texts[script][number * len(texts[script]) // count]
        found.append(Line(text, script, seed=(part, number)))
    return tuple(found)
