"""Records of the set: paragraphs of a handbook in Chinese, no section in two of the sources."""

from __future__ import annotations

from handbook import is_chinese, sections

Record = dict[str, str]

PARTS = (0, 1, 2, 1, 0)
"""Which part every section goes to, in turn: the evaluation needs half as many as the others."""


def candidate_paragraphs() -> list[Record]:
    """Candidates for calibration: records with `text` and the section's `title`."""
    return _paragraphs_of_part(0)


def deployment_paragraphs() -> list[Record]:
    """What stands for production: paragraphs of other sections."""
    return _paragraphs_of_part(1)


def evaluation_paragraphs() -> list[Record]:
    """What accuracy is measured on: paragraphs of yet other sections."""
    return _paragraphs_of_part(2)


def _paragraphs_of_part(part: int) -> list[Record]:
    """The Chinese paragraphs of a part's sections.

    Sections are dealt out from the longest to the shortest, since half of all the text is in a
    seventh of them, and many are not translated at all.
    """
    chinese = [(title, list(filter(is_chinese, texts))) for title, texts in sections("zh-CN")]
    by_length = sorted(chinese, key=lambda section: (-len(section[1]), section[0]))
    return [
        {"text": text, "title": title}
        for number, (title, texts) in enumerate(by_length)
        if PARTS[number % len(PARTS)] == part
        for text in texts
    ]
