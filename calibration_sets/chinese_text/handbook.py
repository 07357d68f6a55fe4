"""The Debian Administrator's Handbook as paragraphs, from the package `make data` unpacks."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

DATA = Path(__file__).resolve().parents[2] / "runs" / "data"
FOLDER = DATA / "debian-handbook" / "usr" / "share" / "doc" / "debian-handbook" / "html"

_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
_LETTER = re.compile(r"[^\W\d_]")


@cache
def sections(language: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Name and paragraphs of every section, in order of the names.

    Args:
        language: of the translation, such as ``zh-CN``. What nobody has translated is in English.

    Returns:
        Paragraphs of one line each, lists, commands and headings left out. A text that comes again
        is left out, too.

    Raises:
        FileNotFoundError: when the package is not unpacked.
    """
    folder = FOLDER / language
    if not folder.is_dir():
        raise FileNotFoundError("the handbook is missing: make data")
    seen = set[str]()
    found = list[tuple[str, tuple[str, ...]]]()
    for path in sorted(folder.glob("*.html")):
        texts = [text for text in dict.fromkeys(_paragraphs(path)) if text not in seen]
        seen.update(texts)
        found.append((path.stem, tuple(texts)))
    return tuple(found)


def is_chinese(text: str, least: int = 30) -> bool:
    """Whether a text has at least `least` Han characters and more of them than other letters."""
    han = len(_HAN.findall(text))
    return han >= least and 2 * han > len(_LETTER.findall(text))


def _paragraphs(path: Path) -> list[str]:
    """The text of every element of class ``para``: the pages are well-formed XHTML."""
    elements = ElementTree.parse(path).iterfind(".//{*}div[@class='para']")
    texts = (" ".join("".join(element.itertext()).split()) for element in elements)
    return [text for text in texts if text]
