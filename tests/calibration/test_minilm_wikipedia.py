"""The demo's data: prose without markup, three sets from different articles; its model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from quantflow.config import load_config
from quantflow.user_code import load_function

FOLDER = Path(__file__).parents[2] / "calibration_sets" / "minilm_wikipedia"


def _call(name: str, *arguments: Any) -> Any:
    return load_function(name, FOLDER)(*arguments)


@pytest.fixture(scope="module")
def parts() -> list[list[dict[str, str]]]:
    names = ("calibration", "deployment", "evaluation")
    return [_call(f"data:{name}_paragraphs") for name in names]


def test_markup_is_removed_and_words_of_links_stay() -> None:
    markup = (
        "{{Infobox|a={{nested|b}}}}\n"
        "== Heading ==\n"
        "[[File:x.jpg|thumb|A [[caption]] of a picture]]'''Albedo''' is<!-- hidden --> a "
        "[[reflection (physics)|reflecting]] [[power]].<ref name=a>See [http://x y]</ref> It has "
        "[http://example.org a page]<ref name=a /> &amp; more ({{lang|la|x}}).\n"
        "{| class=table\n| cell\n{| inner\n|}\n|}\n"
        "* a list item that is long enough to be taken for a paragraph of prose\n"
        "[[Category:Optics]]\n"
    )
    expected = "Albedo is a reflecting power. It has a page & more."
    assert _call("wikitext:paragraphs", markup, 20) == [expected]
    assert _call("wikitext:paragraphs", markup, len(expected) + 1) == []


def test_paragraphs_are_prose(parts: list[list[dict[str, str]]]) -> None:
    texts = [record["text"] for part in parts for record in part]
    assert len(texts) > 4000
    assert min(map(len, texts)) >= 200
    left = [text for text in texts if re.search(r"\[\[|\{\{|<ref|<!--|&[a-z]+;|https?:|''", text)]
    assert len(left) <= 2
    words = sum(len(re.findall(r"[A-Za-z]{2,}", text)) for text in texts)
    assert words / sum(len(text.split()) for text in texts) > 0.85


def test_no_article_is_in_two_sets(parts: list[list[dict[str, str]]]) -> None:
    titles = [{record["title"] for record in part} for part in parts]
    assert min(map(len, titles)) >= 25
    assert not (titles[0] & titles[1] or titles[0] & titles[2] or titles[1] & titles[2])


def test_the_task_has_fifty_documents_in_their_published_order() -> None:
    documents = _call("data:lee_documents")
    assert len(documents) == 50
    assert documents[0]["text"].startswith("The national executive of the strife-torn Democrats")
    assert any("£3,000" in document["text"] for document in documents)


def test_the_configuration_is_valid_and_its_functions_exist() -> None:
    config = load_config(FOLDER / "quantflow.toml").config
    sources = (config.set.candidates, config.set.deployment, config.set.evaluation)
    for source in sources:
        assert source is not None
        assert source.function is not None
        assert callable(load_function(source.function, FOLDER))


def test_embeddings_have_length_one_and_do_not_depend_on_padding() -> None:
    model = _call("model:encoder")
    ids = torch.tensor([[101, 2023, 2003, 1037, 3231, 102]])
    padded = torch.nn.functional.pad(ids, (0, 10), value=99)
    mask = torch.ones_like(ids)
    with torch.no_grad():
        short = model(ids, mask).numpy()
        long = model(padded, torch.nn.functional.pad(mask, (0, 10))).numpy()
    assert short.shape == (1, 384)
    assert np.linalg.norm(short) == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(long, short, atol=1e-5)


def test_a_line_of_wordnet_gives_words_and_meaning_without_examples() -> None:
    # In the format of wndb(5): offset, file, type, words in hexadecimal, pointers, gloss.
    head = "03309465 06 n 02 wheat_berry 0 bulgur 0 001 @ 02841315 n 0000"
    line = head + ' | a kernel of the grass that is ground to flour; "she milled a berry"; "no"  '
    meaning = "a kernel of the grass that is ground to flour"
    assert _call("wordnet:parsed", line) == ("wheat berry, bulgur", meaning)
    many = "0 06 n 0a " + "".join(f"w{i} 0 " for i in range(10)) + "000 | " + "x" * 40
    assert _call("wordnet:parsed", many) == (", ".join(f"w{i}" for i in range(10)), "x" * 40)
    left_out = (
        "  1 This software and database is being provided to you, the LICENSEE | and so on",
        line.replace("bulgur", "Bulgur"),  # a proper name
        line.replace("bulgur", "kernel"),  # gives its meaning away
        head + " | a kernel",
    )
    assert [_call("wordnet:parsed", x) for x in left_out] == [None] * 4


def test_a_line_of_wordnet_tells_its_kind() -> None:
    # The lexicographer file, the second field: 03 is noun.Tops, 06 noun.artifact, 28 noun.time.
    lines = (f"03309465 {file} n 01 word 0 000 | meaning" for file in ("03", "06", "28"))
    assert [_call("classes:kind", line) for line in lines] == [0, 3, 25]


def test_the_head_has_the_least_loss_of_all_nearby() -> None:
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(60, 4)), rng.integers(0, 3, 60)
    weight, bias = _call("classes:fitted", x, labels, 3, 0.01)

    def loss(some: Any, offset: Any) -> float:
        logits = torch.tensor(x @ some.T + offset)
        entropy = torch.nn.functional.cross_entropy(logits, torch.tensor(labels))
        return float(entropy) + 0.01 * float((some**2).sum())

    least = loss(weight, bias)
    for _ in range(50):
        step = rng.normal(size=15) * 0.01
        assert loss(weight + step[:12].reshape(3, 4), bias + step[12:]) > least


@pytest.mark.skipif(
    not (FOLDER.parents[1] / "runs" / "data" / "wordnet-base").is_dir(), reason="make data"
)
def test_every_name_has_its_definition_in_the_same_place() -> None:
    names, meanings = _call("wordnet:names"), _call("wordnet:definitions")
    assert len(names) == len(meanings) == 500
    assert len({x["text"] for x in meanings}) > 490
    assert names[0] == {"text": "entity"} and "distinct existence" in meanings[0]["text"]
