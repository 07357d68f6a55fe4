"""A hundred thousand real texts from what is installed, as a pool to select a set from.

Prose comes first: paragraphs and sentences of Wikipedia, the handbook in its translations where
`make data` has unpacked it. Python source fills the rest: functions and docstrings of the standard
library, then of the installed packages, in order of their paths. The same installation gives the
same file.

    python calibration_sets/large_pool.py --output FILE [--count 100000]
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from itertools import chain
from pathlib import Path
from statistics import median
from textwrap import dedent

from quantflow.user_code import load_function

HERE = Path(__file__).resolve().parent
SHORTEST, LONGEST = 50, 2000
"""Characters of a text."""
LANGUAGES = ("en-US", "zh-CN", "de-DE", "fr-FR", "es-ES", "ru-RU", "ja-JP")

Text = tuple[str, str]
"""What kind of text it is, and the text."""

_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


def main() -> int:
    """Write the pool, say how many texts of which kind it has and how long; 1 when too few."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--count", type=int, default=100_000, help="texts to write")
    arguments = parser.parse_args()
    count: int = arguments.count
    pool = take(count, chain(prose(), handbook(), source()))
    with Path(arguments.output).open("w", encoding="utf-8") as stream:
        for kind, text in pool:
            stream.write(json.dumps({"text": text, "kind": kind}, ensure_ascii=False) + "\n")
    for kind, number in Counter(kind for kind, _ in pool).most_common():
        middle = median(len(text) for other, text in pool if other == kind)
        print(f"{number:8,}  {kind}, {middle:,.0f} characters in the middle")
    print(f"{len(pool):8,}  in all")
    return 0 if len(pool) >= count else 1


def take(count: int, texts: Iterator[Text]) -> list[Text]:
    """The first `count` distinct texts of a fit length, shuffled by digest.

    So any stretch of the file is a fair sample of it, and no seed is needed.
    """
    found = dict[bytes, Text]()
    for kind, text in texts:
        if len(found) >= count:
            break
        # Lone surrogates, which docstrings of codecs may have, are no text.
        if SHORTEST <= len(text) <= LONGEST and not _SURROGATE.search(text):
            found.setdefault(sha256(text.encode()).digest(), (kind, text))
    return [found[digest] for digest in sorted(found)]


def prose() -> Iterator[Text]:
    """Paragraphs of Wikipedia, then the sentences of them."""
    folder = HERE / "english_prose"
    names = ("candidate", "deployment", "evaluation")
    records = chain.from_iterable(load_function(f"data:{n}_paragraphs", folder)() for n in names)
    paragraphs = [str(record["text"]) for record in records]
    yield from (("paragraph of Wikipedia", text) for text in paragraphs)
    for text in paragraphs:
        yield from (("sentence of Wikipedia", part) for part in _SENTENCE_END.split(text))


def handbook() -> Iterator[Text]:
    """Paragraphs of the handbook in some languages; none where it is not unpacked."""
    folder = HERE / "chinese_text"
    sections = load_function("handbook:sections", folder)
    for language in LANGUAGES:
        try:
            found = sections(language)
        except FileNotFoundError:
            return
        for _, texts in found:
            yield from ((f"paragraph of the handbook, {language}", text) for text in texts)


def source() -> Iterator[Text]:
    """Functions and docstrings of the standard library, then of the installed packages."""
    library = Path(sysconfig.get_path("stdlib"))
    packages = Path(sysconfig.get_path("purelib"))
    for path in sorted(library.rglob("*.py")):
        if "site-packages" not in path.parts:
            yield from _texts_of_module(path, "the standard library")
    for path in sorted(packages.rglob("*.py")):
        yield from _texts_of_module(path, "a package")


def _texts_of_module(path: Path, origin: str) -> Iterator[Text]:
    """Docstrings and whole functions of a module; none of one that is no Python 3 in UTF-8."""
    try:
        content = path.read_text(encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes that a later Python will refuse
            tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError):
        return
    lines = content.split("\n")
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"docstring of {origin}", ast.get_docstring(node) or ""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            text = dedent("\n".join(lines[node.lineno - 1 : node.end_lineno]))
            yield f"function of {origin}", text


if __name__ == "__main__":
    sys.exit(main())
