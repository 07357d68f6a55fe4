"""Records of the set: paragraphs of Wikipedia, Python functions, the documents of Lee et al.

The texts come with the gensim package, which is used for its data only and never imported; the
functions are those of the running interpreter's standard library.
"""

from __future__ import annotations

import bz2
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

from python_source import functions
from wikitext import paragraphs

Record = dict[str, str]

DUMP = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
DOCUMENTS = "lee.cor"


def candidates() -> list[Record]:
    """Candidates for calibration, half of which are no prose: paragraphs, then functions."""
    return calibration_paragraphs() + python_functions()


def calibration_paragraphs() -> list[Record]:
    """The prose among them: records with `text` and `title`, from every third article."""
    return _paragraphs_of_part(0)


def python_functions() -> list[Record]:
    """The rest: records with the `text` of a function and its module as `title`."""
    return [{"text": text, "title": module} for module, text in functions()]


def deployment_paragraphs() -> list[Record]:
    """What stands for production: paragraphs of other articles."""
    return _paragraphs_of_part(1)


def evaluation_paragraphs() -> list[Record]:
    """What accuracy is measured on: paragraphs of yet other articles."""
    return _paragraphs_of_part(2)


def lee_documents() -> list[Record]:
    """The 50 news texts of Lee et al. (2005), in the order of their similarity matrix."""
    text = (_data_folder() / DOCUMENTS).read_text(encoding="latin-1")
    return [{"text": line} for line in text.splitlines()]


def _paragraphs_of_part(part: int) -> list[Record]:
    # Neighbours in the dump are often on one subject (Angola, Economy of Angola), so whole articles
    # are dealt out in turn: every part gets something of everything, and no article is in two.
    return [
        {"text": text, "title": title}
        for index, (title, texts) in enumerate(_articles())
        for text in texts
        if index % 3 == part
    ]


@cache
def _articles() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Title and paragraphs of every article with prose, in the order of the dump."""
    with bz2.open(_data_folder() / DUMP) as stream:
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


def _data_folder() -> Path:
    # find_spec of a top-level package runs none of its code.
    spec = importlib.util.find_spec("gensim")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("the data is missing: pip install --no-deps gensim==4.4.0")
    return Path(spec.submodule_search_locations[0]) / "test" / "test_data"
