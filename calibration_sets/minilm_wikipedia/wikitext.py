"""From wiki markup to paragraphs of prose, as far as the calibration set needs it."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

_DROPPED = re.compile(
    r"<!--.*?-->"
    r"|<(ref|math|gallery|table|timeline|score|code|pre|source)\b[^<>]*/>"
    r"|<(ref|math|gallery|table|timeline|score|code|pre|source)\b[^<>]*>.*?</\2\s*>",
    re.DOTALL | re.IGNORECASE,
)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_INNERMOST_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}|\{\|(?:(?!\{\||\|\}).)*\|\}", re.DOTALL)
_INNERMOST_LINK = re.compile(r"\[\[([^\[\]]*)\]\]")
_EXTERNAL_LINK = re.compile(r"\[(?:https?:)?//[^\s\]]+\s*([^\]]*)\]")
_NO_TEXT = re.compile(r"^:?\s*(file|image|category|media|[a-z]{2,3}(-[a-z]+)*)\s*:", re.IGNORECASE)
_QUOTES = re.compile(r"'{2,}")
_EMPTY_BRACKETS = re.compile(r"\s*\(\s*[;,]*\s*\)")
_SPACE = re.compile(r"\s+")
_PROSE = re.compile(r"[A-Z\"“‘'(]")


def paragraphs(markup: str, shortest: int = 200) -> list[str]:
    """The paragraphs of an article that are prose.

    Args:
        markup: text of a page. Templates, tables, references, pictures, formulas, headings and
            lists are dropped; of links the words remain.
        shortest: least number of characters of a paragraph.

    Returns:
        One line each, in order.
    """
    text = _DROPPED.sub(" ", markup)
    text = _until_stable(_INNERMOST_TEMPLATE, "", text)
    text = _TAG.sub(" ", text)
    text = _until_stable(_INNERMOST_LINK, _words_of_link, text)
    text = _EXTERNAL_LINK.sub(r"\1", text)
    # Only now, since &lt; and &gt; stand for characters that are no tags.
    text = html.unescape(html.unescape(_QUOTES.sub("", text)))
    lines = (_SPACE.sub(" ", _EMPTY_BRACKETS.sub("", line)).strip() for line in text.split("\n"))
    return [line for line in lines if len(line) >= shortest and _PROSE.match(line)]


def _words_of_link(match: re.Match[str]) -> str:
    target = match.group(1)
    return "" if _NO_TEXT.match(target) else target.rpartition("|")[2]


def _until_stable(
    pattern: re.Pattern[str], replacement: str | Callable[[re.Match[str]], str], text: str
) -> str:
    """Replace until nothing matches: nested markup goes from the inside out."""
    count = 1
    while count:
        text, count = pattern.subn(replacement, text)
    return text
