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


def shown(value: object) -> str:
    """A value from elsewhere as Python writes it, also where its ``repr`` raises."""
    try:
        return printable(repr(value))
    except Exception:
        return printable(f"a value of type {type(value).__name__}")


def raised(error: BaseException) -> str:
    """Type and message of an exception from elsewhere, also where its ``str`` raises."""
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be read)"
    return printable(f"{type(error).__name__}: {message}".removesuffix(": "))
