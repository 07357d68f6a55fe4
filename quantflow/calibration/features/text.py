"""Features of a text before it is tokenized: which characters it is made of."""

from __future__ import annotations

import string
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_LETTER, _DIGIT, _PUNCTUATION, _SPACE, _NEWLINE, _NON_ASCII, _UPPER = (1 << i for i in range(7))
_CLASSES = 128


def text_features(text: str) -> dict[str, float]:
    """Length, shares of characters, and mean length of a word.

    Args:
        text: all of it, also what is cut off before the model sees it.

    Returns:
        ``text.characters`` and ``text.mean_word_length`` in characters; all else as shares of the
        characters, 0-1, but for ``text.upper_case``, a share of the letters. A class without
        anything to count in it is 0. Punctuation is that of ASCII.
    """
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    kinds = _kinds()[points]
    of = _members() @ np.bincount(kinds, minlength=_CLASSES)
    letters, digits, punctuation, spaces, newlines, non_ascii, upper = map(int, of)
    apart = (kinds & _SPACE) != 0
    words = int(np.count_nonzero(apart[:-1] & ~apart[1:])) + int(not apart[:1].all())
    count = max(len(text), 1)
    return {
        "text.characters": float(len(text)),
        "text.letters": letters / count,
        "text.digits": digits / count,
        "text.punctuation": punctuation / count,
        "text.whitespace": spaces / count,
        "text.newlines": newlines / count,
        "text.non_ascii": non_ascii / count,
        "text.upper_case": upper / max(letters, 1),
        "text.mean_word_length": (len(text) - spaces) / max(words, 1),
    }


@lru_cache(maxsize=1)
def _kinds() -> NDArray[np.uint8]:
    """The classes of every code point, ``(0x110000,)``: a bit each, as `str` has them."""
    points = np.arange(0x110000, dtype=np.uint32)
    characters = points.view("U1")
    kinds = np.where(np.strings.isalpha(characters), _LETTER, 0)
    kinds |= np.where(np.strings.isdigit(characters), _DIGIT, 0)
    kinds |= np.where(np.strings.isspace(characters), _SPACE, 0)
    kinds |= np.where(np.strings.isupper(characters), _UPPER, 0)
    kinds |= np.where(points > 0x7F, _NON_ASCII, 0)
    kinds[[ord(x) for x in string.punctuation]] |= _PUNCTUATION
    kinds[ord("\n")] |= _NEWLINE
    return kinds.astype(np.uint8)


@lru_cache(maxsize=1)
def _members() -> NDArray[np.int64]:
    """``(7, _CLASSES)``: 1 where a combination of classes includes one."""
    return (np.arange(_CLASSES) >> np.arange(7)[:, None]) & 1
