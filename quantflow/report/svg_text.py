"""A figure's text without what a page does not need: a third of the bytes, drawn the same."""

from __future__ import annotations

import re

_NOT_NEEDED = (
    re.compile(r"<metadata>.*?</metadata>", re.DOTALL),
    re.compile(r'<g id="[^"]*"/>'),  # groups of nothing
    re.compile(r" font-family: [^;\"]*;"),  # so that text is in the page's font
    re.compile(r' transform="rotate\(-0 [^"]*"'),
    re.compile(r"(?<=>)\s+(?=<)"),
)
_PLACES = re.compile(r'(?<= )(?:d|x|y)="[^"]*"')
_LONG_NUMBER = re.compile(r"(\.\d\d)\d+")


def slim(svg: str) -> str:
    """Leave out metadata, empty groups and fonts, and cut places to a hundredth of a point."""
    for pattern in _NOT_NEEDED:
        svg = pattern.sub("", svg)
    return _PLACES.sub(lambda place: _cut_short(place[0]), svg)


def _cut_short(place: str) -> str:
    return _LONG_NUMBER.sub(r"\1", " ".join(place.split()))
