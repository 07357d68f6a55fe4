"""Features of a text before it is tokenized: which characters it is made of."""

from __future__ import annotations

import string

_PUNCTUATION = frozenset(string.punctuation)


def text_features(text: str) -> dict[str, float]:
    """Length, shares of characters, and mean length of a word.

    Args:
        text: all of it, also what is cut off before the model sees it.

    Returns:
        ``text.characters`` and ``text.mean_word_length`` in characters; all else as shares of the
        characters, 0-1, but for ``text.upper_case``, a share of the letters. A class without
        anything to count in it is 0. Punctuation is that of ASCII.
    """
    count = max(len(text), 1)
    letters = sum(map(str.isalpha, text))
    words = text.split()
    return {
        "text.characters": float(len(text)),
        "text.letters": letters / count,
        "text.digits": sum(map(str.isdigit, text)) / count,
        "text.punctuation": sum(map(_PUNCTUATION.__contains__, text)) / count,
        "text.whitespace": sum(map(str.isspace, text)) / count,
        "text.newlines": text.count("\n") / count,
        "text.non_ascii": sum(character > "\x7f" for character in text) / count,
        "text.upper_case": sum(map(str.isupper, text)) / max(letters, 1),
        "text.mean_word_length": sum(map(len, words)) / max(len(words), 1),
    }
