"""Text from elsewhere, made fit to be printed."""

from __future__ import annotations

LONGEST = 200


def printable(text: str, longest: int = LONGEST) -> str:
    """The text without what moves a terminal's cursor or colours it, and no longer than `longest`.

    Characters that do not print are written as Python escapes them. What is cut off is shown as
    ``...``.
    """
    cut = text if len(text) <= longest else text[: longest - 3] + "..."
    return "".join(x if x.isprintable() else ascii(x)[1:-1] for x in cut)
