"""Records of the set: rows of 512 tokens of Wikipedia articles, without padding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from model import tokenizer
from wikipedia import articles_of_part

ROW = 512
"""Tokens of a row: what the model is compiled for."""

Record = dict[str, Any]


def calibration_rows() -> list[Record]:
    """Candidates for calibration: rows with `input_ids`, their `text` and the article's `title`."""
    return list(_rows_of_part(0))


def deployment_rows() -> list[Record]:
    """What stands for production: rows of other articles."""
    return list(_rows_of_part(1))


def evaluation_rows() -> list[Record]:
    """What accuracy is measured on: rows of yet other articles."""
    return list(_rows_of_part(2))


def _rows_of_part(part: int) -> Iterator[Record]:
    """Of an article's paragraphs, a blank line between them."""
    return rows((title, "\n\n".join(texts)) for title, texts in articles_of_part(part))


def rows(texts: Iterable[tuple[str, str]]) -> Iterator[Record]:
    """Texts, cut every `ROW` tokens.

    What remains at the end of a text is left out, and nothing marks where a row begins: a row is
    a stretch of running text.

    Args:
        texts: title and text of each.
    """
    encoder = tokenizer()
    for title, text in texts:
        found = encoder.encode(text)
        for start in range(0, len(found.ids) - ROW + 1, ROW):
            first, last = found.offsets[start], found.offsets[start + ROW - 1]
            yield {
                "input_ids": found.ids[start : start + ROW],
                "text": text[first[0] : last[1]],
                "title": title,
            }
