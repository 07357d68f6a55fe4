"""The same articles in short and in long paragraphs: traffic that differs in length alone.

Both come from articles that have either kind, so subject and style are the same. Every second
article is dealt to the candidates, the rest to deployment.
"""

from __future__ import annotations

from wikipedia import PARTS, articles_of_part

Record = dict[str, str]

SHORT, LONG = 400, 700
"""Characters: a short paragraph has fewer than the one, a long paragraph more than the other."""


def short_candidates() -> list[Record]:
    """Short paragraphs of the one half of the articles: records with `text` and `title`."""
    return _paragraphs(0, 0, SHORT - 1)


def long_candidates() -> list[Record]:
    """Long paragraphs of the same articles."""
    return _paragraphs(0, LONG + 1, None)


def short_deployment() -> list[Record]:
    """Short paragraphs of the other half."""
    return _paragraphs(1, 0, SHORT - 1)


def long_deployment() -> list[Record]:
    """Long paragraphs of the articles of `short_deployment`."""
    return _paragraphs(1, LONG + 1, None)


def _paragraphs(half: int, least: int, most: int | None) -> list[Record]:
    """Paragraphs of `least` to `most` characters, from articles with short and long ones."""
    articles = [article for part in range(PARTS) for article in articles_of_part(part)]
    both = [(title, texts) for title, texts in articles if _has_either(texts)]
    return [
        {"text": text, "title": title}
        for title, texts in both[half::2]
        for text in texts
        if least <= len(text) and (most is None or len(text) <= most)
    ]


def _has_either(texts: tuple[str, ...]) -> bool:
    return min(map(len, texts)) < SHORT and max(map(len, texts)) > LONG
