"""Short texts to draw: news in English, verse in Chinese."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Literal

Script = Literal["english", "chinese"]

DATA = Path(__file__).resolve().parents[2] / "runs" / "data"
POEMS = DATA / "fortunes-zh" / "usr" / "share" / "games" / "fortunes"

_WORDS = re.compile(r"\S(?:[^\n]{0,14}\S)?(?=\s|$)")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_CLAUSE = re.compile(r"[\u4e00-\u9fff]{3,10}[，。？！；：]")


def snippets(script: Script, part: int) -> list[str]:
    """Texts of one of three parts, in order; no document or poem is in two parts.

    Args:
        script: of the texts.
        part: 0 to 2.

    Returns:
        English words of up to 16 characters together, or a clause of three to ten Chinese
        characters with its mark.
    """
    documents = _news() if script == "english" else _poems()
    pattern = _WORDS if script == "english" else _CLAUSE
    return list(chain.from_iterable(pattern.findall(text) for text in documents[part::3]))


@cache
def _news() -> tuple[str, ...]:
    """300 news texts of 2000 and 2001, which the gensim package carries."""
    # find_spec of a top-level package runs none of its code.
    spec = importlib.util.find_spec("gensim")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("the English text is missing: make env")
    folder = Path(spec.submodule_search_locations[0]) / "test" / "test_data"
    return tuple((folder / "lee_background.cor").read_text(encoding="utf-8").splitlines())


@cache
def _poems() -> tuple[str, ...]:
    """Poems of the Tang and Song dynasties, in simplified characters, titles dropped."""
    if not POEMS.is_dir():
        raise FileNotFoundError("the Chinese text is missing: make data")
    files = (POEMS / name for name in ("tang300", "song100"))
    texts = (_COLOURS.sub("", file.read_text(encoding="utf-8")) for file in files)
    poems = chain.from_iterable(text.split("\n%\n") for text in texts)
    # The first two lines are title and author.
    return tuple("\n".join(poem.strip().splitlines()[2:]) for poem in poems)
