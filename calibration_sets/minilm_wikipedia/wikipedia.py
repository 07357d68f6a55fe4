"""Articles of the shortened English Wikipedia dump that the gensim package carries.

The package is used for its data only and never imported.
"""

from __future__ import annotations

import bz2
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

from wikitext import paragraphs

DUMP = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
PARTS = 3
"""Calibration, deployment and evaluation."""


def articles_of_part(part: int) -> list[tuple[str, tuple[str, ...]]]:
    """Title and paragraphs of every third article, from number `part` on.

    Neighbours in the dump are often on one subject (Angola, Economy of Angola), so whole articles
    are dealt out in turn: every part gets something of everything, and no article is in two.
    """
    return list(_articles()[part::PARTS])


def data_folder() -> Path:
    """Where gensim keeps its test data."""
    # find_spec of a top-level package runs none of its code.
    spec = importlib.util.find_spec("gensim")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("the data is missing: pip install --no-deps gensim==4.4.0")
    return Path(spec.submodule_search_locations[0]) / "test" / "test_data"


@cache
def _articles() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Title and paragraphs of every article with prose, in the order of the dump."""
    with bz2.open(data_folder() / DUMP) as stream:
        pages = ((title, tuple(paragraphs(text))) for title, text in _pages(stream))
        return tuple((title, texts) for title, texts in pages if texts)


def _pages(stream: bz2.BZ2File) -> Iterator[tuple[str, str]]:
    """Title and markup of every page of the article namespace that is no redirect."""
    for _, element in ElementTree.iterparse(stream):
        if not element.tag.endswith("}page"):
            continue
        if element.findtext("{*}ns") == "0" and element.find("{*}redirect") is None:
            title = element.findtext("{*}title") or ""
            yield title, element.findtext("{*}revision/{*}text") or ""
        element.clear()
