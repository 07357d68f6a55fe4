"""The set of Python code: whole functions, sizes as its README says, no module in two sources."""

from __future__ import annotations

import ast
import hashlib
import platform
import sysconfig
from pathlib import Path

import pytest

from quantflow.user_code import load_function

FOLDER = Path(__file__).parents[2] / "calibration_sets" / "python_code"
README = (FOLDER / "README.md").read_text(encoding="utf-8")

Records = list[dict[str, str]]


@pytest.fixture(scope="module")
def files() -> list[Records]:
    return [load_function(f"files:{name}_files", FOLDER)() for name in ("candidate", "deployment")]


@pytest.fixture(scope="module")
def parts() -> list[Records]:
    names = ("candidate", "deployment", "evaluation")
    return [load_function(f"data:{name}_functions", FOLDER)() for name in names]


def test_there_is_enough_of_every_source(parts: list[Records]) -> None:
    assert min(map(len, parts)) >= 500
    assert min(len({record["title"] for record in part}) for part in parts) >= 40


def test_no_module_and_no_text_is_in_two_sources(parts: list[Records]) -> None:
    for key in ("title", "text"):
        a, b, c = ({record[key] for record in part} for part in parts)
        assert not (a & b or a & c or b & c)
    texts = [record["text"] for part in parts for record in part]
    assert len(texts) == len(set(texts))


def test_records_are_whole_functions(parts: list[Records]) -> None:
    for record in (record for part in parts for record in part[::20]):
        text = record["text"]
        # Where a string has lines without indentation, the function keeps its own.
        (node,) = ast.parse(f"if True:\n{text}" if text[0] == " " else text).body
        function = node.body[0] if isinstance(node, ast.If) else node
        assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        assert len(text) >= 200


def test_no_file_is_in_both_sources_and_none_comes_twice(files: list[Records]) -> None:
    for key in ("title", "text"):
        values = [record[key] for part in files for record in part]
        assert len(values) == len(set(values))


def test_files_are_those_of_the_library_whole(files: list[Records]) -> None:
    library = Path(sysconfig.get_path("stdlib"))
    for record in (record for part in files for record in part[::40]):
        assert (library / record["title"]).read_text(encoding="utf-8") == record["text"]
        assert len(record["text"]) >= 200
    assert not any("site-packages" in record["title"] for part in files for record in part)


def test_sizes_and_digest_are_those_of_the_readme(
    parts: list[Records], files: list[Records]
) -> None:
    version = platform.python_version()
    if f"CPython {version} " not in README:
        pytest.skip(f"the README has figures of another Python than {version}")
    for part in parts:
        modules = {record["title"] for record in part}
        assert f"| {len(modules)} | {len(part):,} |" in README
    candidates, deployment = map(len, files)
    assert f"{candidates} candidates and {deployment} for deployment" in README
    assert min(candidates, deployment) >= 600
    texts = sorted(record["text"] for part in parts for record in part)
    assert hashlib.sha256("\0".join(texts).encode()).hexdigest() in README
