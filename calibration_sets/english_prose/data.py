"""Records of the set: paragraphs of Wikipedia, no article in two of the three sources."""

from __future__ import annotations

from wikipedia import articles_of_part

Record = dict[str, str]


def candidate_paragraphs() -> list[Record]:
    """Candidates for calibration: records with `text` and the article's `title`."""
    return _paragraphs_of_part(0)


def deployment_paragraphs() -> list[Record]:
    """What stands for production: paragraphs of other articles."""
    return _paragraphs_of_part(1)


def evaluation_paragraphs() -> list[Record]:
    """What accuracy is measured on: paragraphs of yet other articles."""
    return _paragraphs_of_part(2)


def _paragraphs_of_part(part: int) -> list[Record]:
    return [
        {"text": text, "title": title} for title, texts in articles_of_part(part) for text in texts
    ]
