"""The large pool: distinct texts of a fit length, the same file every time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from quantflow.user_code import load_function

FOLDER = Path(__file__).parents[2] / "calibration_sets"
COUNT = 6000


def _write(path: Path, count: int) -> str:
    command = [sys.executable, FOLDER / "large_pool.py", "--output", path, "--count", str(count)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    path = tmp_path_factory.mktemp("pool") / "pool.jsonl"
    return path, _write(path, COUNT)


def test_texts_are_distinct_and_of_a_fit_length(pool: tuple[Path, str]) -> None:
    texts = [json.loads(line)["text"] for line in pool[0].read_text(encoding="utf-8").splitlines()]
    assert len(texts) == len(set(texts)) == COUNT
    assert min(map(len, texts)) >= 50
    assert max(map(len, texts)) <= 2000


def test_it_says_how_many_of_which_kind_and_how_long(pool: tuple[Path, str]) -> None:
    records = [json.loads(line) for line in pool[0].read_text(encoding="utf-8").splitlines()]
    for kind in {record["kind"] for record in records}:
        sizes = [len(record["text"]) for record in records if record["kind"] == kind]
        middle = f"{np.median(sizes):,.0f} characters in the middle"
        assert f"{len(sizes):,}  {kind}, {middle}" in pool[1]
    assert f"{COUNT:,}  in all" in pool[1]


def test_the_file_is_the_same_every_time(pool: tuple[Path, str], tmp_path: Path) -> None:
    _write(tmp_path / "again.jsonl", COUNT)
    assert (tmp_path / "again.jsonl").read_bytes() == pool[0].read_bytes()


def test_texts_that_are_short_long_again_or_no_text_are_left_out() -> None:
    take = load_function("large_pool:take", FOLDER)
    fit = "a" * 50
    texts = ["a" * 49, fit, fit, "b" * 2000, "b" * 2001, "\ud800" * 60]
    found = take(10, iter(("kind", text) for text in texts))
    assert sorted(text for _, text in found) == [fit, "b" * 2000]
    assert len(take(1, iter(("kind", text) for text in texts))) == 1


def test_functions_and_docstrings_are_read_from_source_that_parses(tmp_path: Path) -> None:
    read = load_function("large_pool:_texts_of_module", FOLDER)
    path = tmp_path / "module.py"
    path.write_text('"""Of a module."""\nclass A:\n    def f(self):\n        """Of it."""\n')
    texts = [text for _, text in read(path, "here") if text]
    assert texts == ["Of a module.", "Of it.", 'def f(self):\n    """Of it."""']
    path.write_text("print 'of another Python'")
    assert list(read(path, "here")) == []
