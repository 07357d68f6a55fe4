"""The fast features of texts, tokens and values equal their definitions, character by character."""

from __future__ import annotations

import string
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from quantflow.calibration.features.images import record_features
from quantflow.calibration.features.text import text_features
from quantflow.calibration.features.tokens import token_features
from quantflow.calibration.features.values import value_features
from quantflow.calibration.text import TextEncoder
from quantflow.config import PreprocessConfig
from quantflow.errors import QuantflowError

from .tiny_tokenizer import text_inputs, write_tokenizer


def _defined(text: str) -> dict[str, float]:
    """With the methods of `str`, a character at a time."""
    count, words = max(len(text), 1), text.split()
    letters = sum(x.isalpha() for x in text)
    return {
        "text.characters": len(text),
        "text.letters": letters / count,
        "text.digits": sum(x.isdigit() for x in text) / count,
        "text.punctuation": sum(x in string.punctuation for x in text) / count,
        "text.whitespace": sum(x.isspace() for x in text) / count,
        "text.newlines": text.count("\n") / count,
        "text.non_ascii": sum(not x.isascii() for x in text) / count,
        "text.upper_case": sum(x.isupper() for x in text) / max(letters, 1),
        "text.mean_word_length": sum(map(len, words)) / max(len(words), 1),
    }


@settings(max_examples=300)
@given(text=st.text() | st.text(" \n\t\x1f\u3000aB1.\u00e9\u5bbd\ud800", max_size=30))
def test_text_features_equal_their_definition(text: str) -> None:
    assert text_features(text) == _defined(text)


def test_every_character_is_of_the_classes_that_python_has_it_in() -> None:
    characters = list(map(chr, range(sys.maxunicode + 1)))
    for start in range(0, len(characters), 4096):
        page = "".join(characters[start : start + 4096])
        assert text_features(page) == _defined(page), hex(start)


@settings(max_examples=200)
@given(
    ids=hnp.arrays(
        st.sampled_from(["int64", "int32"]),
        hnp.array_shapes(max_dims=2, max_side=40),
        elements=st.integers(0, 50),
    )
)
def test_token_features_equal_their_definition(ids: Any) -> None:
    found = token_features(ids, "x", 3)
    assert found["x.median_id"] == pytest.approx(np.median(ids))
    assert found["x.p90_id"] == pytest.approx(np.quantile(ids, 0.9))
    assert found["x.distinct"] == len(set(ids.ravel().tolist())) / ids.size
    assert found["x.unknown"] == ids.ravel().tolist().count(3) / ids.size


@pytest.mark.parametrize("size", [1, 2, 5, 1024, 1025, 5000])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "uint8", "bool", "int64"])
def test_value_features_equal_their_definition(size: int, dtype: str) -> None:
    drawn = np.random.default_rng(size).normal(0, 90, size)
    x = np.where(drawn < -150, 0, drawn).astype(dtype if dtype != "uint8" else "int16")
    x = x.astype(dtype)
    wide, found = x.astype(np.float64), value_features(x, "x")
    for name, quantile in (("p1", 0.01), ("p50", 0.5), ("p99", 0.99)):
        assert found[f"x.{name}"] == pytest.approx(np.quantile(wide, quantile), rel=1e-12), name
    assert found["x.mean"] == pytest.approx(wide.mean(), rel=1e-9, abs=1e-12)
    assert found["x.std"] == pytest.approx(wide.std(), rel=1e-9, abs=1e-12)
    assert found["x.absmax"] == abs(wide).max()
    assert found["x.zeros"] == pytest.approx((wide == 0).mean())


def test_a_picture_has_the_size_of_its_file() -> None:
    found = record_features(Image.new("L", (30, 20)))
    assert found == {"image.width": 30, "image.height": 20}


def _encoder(directory: Path, pad: str = "max_length") -> TextEncoder:
    write_tokenizer(directory / "tokenizer.json")
    config = PreprocessConfig.model_validate(
        {"tokenizer": "tokenizer.json", "max_length": 6, "pad": pad}
    )
    inputs = text_inputs("input_ids", "attention_mask", "token_type_ids")
    return TextEncoder.load(directory / "tokenizer.json", config, inputs)


@pytest.mark.parametrize("pad", ["max_length", "none"])
def test_texts_encoded_together_equal_those_encoded_alone(tmp_path: Path, pad: str) -> None:
    encoder = _encoder(tmp_path, pad)
    texts = ["red", "green blue red green blue red green", "", "unheard of", "red\n\nblue"]
    records, names = [{"text": text} for text in texts], [f"a[{i}]" for i in range(len(texts))]
    together = encoder.encode_many(records, names)
    for record, name, found in zip(records, names, together, strict=True):
        alone = encoder(record, name)
        assert alone.keys() == found.keys()
        for key, array in alone.items():
            assert array.dtype == found[key].dtype == np.int64
            np.testing.assert_array_equal(array, found[key])
    assert together[0]["input_ids"].tolist() == ([2, 4, 3, 0, 0, 0] if pad != "none" else [2, 4, 3])
    assert together[1]["input_ids"].tolist() == [2, 5, 6, 4, 5, 3]
    assert encoder.encode_many([], []) == []


def test_a_record_without_text_is_named_among_many(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [{"text": "red"}, {"text": None}]
    with pytest.raises(QuantflowError) as caught:
        _encoder(tmp_path).encode_many(records, ["a[0]", "a[1]"])
    assert "a[1]" in str(caught.value) and caught.value.problems[0].code == "QF303"
