"""Whole files of Python's standard library: what a service that is sent files would see.

Every second file, in order of the paths, goes to the candidates, the rest to deployment.
"""

from __future__ import annotations

import sysconfig
from functools import cache
from pathlib import Path

Record = dict[str, str]

SHORTEST = 200
"""Characters of a file, as of a function."""


def candidate_files() -> list[Record]:
    """Candidates for calibration: records with the `text` of a file and its path, `title`."""
    return list(_files()[0::2])


def deployment_files() -> list[Record]:
    """What stands for production: other files."""
    return list(_files()[1::2])


@cache
def _files() -> tuple[Record, ...]:
    """Every distinct file that is UTF-8, of packages and tests as well; the first path is kept."""
    library = Path(sysconfig.get_path("stdlib"))
    titles = dict[str, str]()
    for path in sorted(library.rglob("*.py")):
        title = path.relative_to(library)
        if "site-packages" in title.parts:
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # tests of the parser have other encodings on purpose
            continue
        if len(text) >= SHORTEST:
            titles.setdefault(text, title.as_posix())
    return tuple({"text": text, "title": title} for text, title in titles.items())
