"""Text from elsewhere, made fit to be printed."""

from __future__ import annotations

from unicodedata import category

LONGEST = 200

_UNFIT = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Categories of characters that steer a terminal or turn the direction of text."""


def printable(text: str, longest: int = LONGEST) -> str:
    """The text without what moves a terminal's cursor or colours it, and no longer than `longest`.

    Such characters are written as Python escapes them. What is cut off is shown as ``...``.
    """
    cut = text if len(text) <= longest else text[: longest - 3] + "..."
    if cut.isascii() and cut.isprintable():
        return cut
    return "".join(ascii(x)[1:-1] if category(x) in _UNFIT else x for x in cut)
