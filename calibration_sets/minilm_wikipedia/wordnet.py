"""Nouns of WordNet 3.0 and their definitions, from the Debian package `make data` unpacks."""

from __future__ import annotations

from functools import cache
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "runs" / "data"
FILE = DATA / "wordnet-base" / "usr" / "share" / "wordnet" / "data.noun"
PAIRS = 500
"""How many are taken, at equal distances in the file."""
_SHORTEST = 30
"""Characters of a definition; shorter ones are mostly names of kinds."""

Record = dict[str, str]


def names() -> list[Record]:
    """Queries: the words for a thing, such as "wheat berry"."""
    return [{"text": words} for words, _ in _pairs()]


def definitions() -> list[Record]:
    """Documents: what the words mean, in the order of `names`."""
    return [{"text": meaning} for _, meaning in _pairs()]


@cache
def _pairs() -> tuple[tuple[str, str], ...]:
    """Words and definition of `PAIRS` nouns."""
    found = [pair for line in noun_lines() if (pair := parsed(line)) is not None]
    step = len(found) // PAIRS
    return tuple(found[: PAIRS * step : step])


def noun_lines() -> list[str]:
    """The lines of the file of nouns.

    Raises:
        FileNotFoundError: when the package is not unpacked.
    """
    if not FILE.is_file():
        raise FileNotFoundError("WordNet is missing: make data")
    return FILE.read_text(encoding="ascii").splitlines()


def parsed(line: str) -> tuple[str, str] | None:
    """Words and definition of a line in the format of wndb(5).

    Returns:
        Words with commas between, and the gloss up to its first example; None for the licence, for
        proper names, and for definitions that are short or use one of the words.
    """
    if line.startswith("  "):
        return None
    head, _, gloss = line.partition(" | ")
    fields = head.split(" ")
    words = [word.replace("_", " ") for word in fields[4 : 4 + 2 * int(fields[3], 16) : 2]]
    meaning = gloss.partition('; "')[0].strip()
    named = any(word != word.lower() for word in words)
    told = any(word in meaning for word in words)
    return None if named or told or len(meaning) < _SHORTEST else (", ".join(words), meaning)
