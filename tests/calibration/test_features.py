"""Features of samples: counted by hand, padding left out, the model's space kept."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from quantflow.artifacts.model_record import TensorInfo
from quantflow.artifacts.sample_set import SampleInfo
from quantflow.calibration.draw import Batch
from quantflow.calibration.features.extract import Extractor, input_counts, input_features
from quantflow.calibration.features.script import SCRIPTS, script_of
from quantflow.calibration.features.table import concatenate
from quantflow.calibration.features.text import text_features
from quantflow.calibration.features.tokens import BINS, token_counts, token_features, unknown_id
from quantflow.calibration.features.values import value_features

from .drift_tables import table
from .tiny_tokenizer import text_inputs, write_tokenizer


def test_characters_of_a_text_are_counted() -> None:
    found = text_features("Ab 1,\n宽é?")
    assert found == pytest.approx(
        {
            "text.characters": 9,
            "text.letters": 4 / 9,
            "text.digits": 1 / 9,
            "text.punctuation": 2 / 9,
            "text.whitespace": 2 / 9,
            "text.newlines": 1 / 9,
            "text.non_ascii": 2 / 9,
            "text.upper_case": 1 / 4,
            "text.mean_word_length": 7 / 3,
        }
    )
    assert set(text_features("").values()) == {0.0}


def test_tokens_are_described_by_rank_variety_and_what_is_unknown() -> None:
    found = token_features(np.array([1, 1, 5, 9, 100]), "ids", 1)
    assert found == {
        "ids.median_id": 5.0,
        "ids.p90_id": pytest.approx(9 + 0.6 * 91),
        "ids.distinct": 4 / 5,
        "ids.unknown": 2 / 5,
    }
    assert "ids.unknown" not in token_features(np.array([1]), "ids", None)


def test_token_counts_add_up_and_spread_over_the_bins() -> None:
    ids = np.arange(30000)
    counts = token_counts(ids)
    assert counts.shape == (BINS,)
    assert counts.sum() == 30000
    assert counts.max() < 1.2 * 30000 / BINS
    bins = [(int(i) * 2654435761 % 2**32) // 2**24 for i in (0, 7, 29999)]
    assert [int(token_counts(np.array([i])).argmax()) for i in (0, 7, 29999)] == bins


@pytest.mark.parametrize(
    ("model", "added", "expected"),
    [
        ({"unk_token": "[UNK]", "vocab": {"a": 0, "[UNK]": 3}}, [], 3),
        ({"unk_token": "<u>", "vocab": {"a": 0}}, [{"content": "<u>", "id": 9}], 9),
        ({"unk_id": 2, "vocab": [["a", -1.0]]}, [], 2),
        ({"unk_token": None, "vocab": {"a": 0}}, [], None),
        ({"vocab": [["a", -1.0]], "unk_id": None}, [], None),
    ],
)
def test_the_unknown_token_is_found_in_every_kind_of_tokenizer(
    tmp_path: Path, model: dict[str, Any], added: list[dict[str, Any]], expected: int | None
) -> None:
    (tmp_path / "t.json").write_text(json.dumps({"model": model, "added_tokens": added}))
    assert unknown_id(tmp_path / "t.json") == expected


def test_the_unknown_token_of_a_real_file_is_found(tmp_path: Path) -> None:
    write_tokenizer(tmp_path / "tokenizer.json")
    assert unknown_id(tmp_path / "tokenizer.json") == 1


def test_values_are_described_by_moments_and_quantiles() -> None:
    x = np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32)
    x[0, :6] = 0
    found = value_features(x, "x")
    wide = x.astype(np.float64)
    assert found["x.mean"] == pytest.approx(wide.mean())
    assert found["x.std"] == pytest.approx(wide.std())
    assert found["x.absmax"] == abs(wide).max()
    assert found["x.p99"] == pytest.approx(np.percentile(wide, 99))
    assert found["x.zeros"] == pytest.approx(6 / 120)
    assert value_features(np.array([200, 100], np.uint8), "x")["x.mean"] == 150


def test_padding_counts_in_no_feature_but_its_own() -> None:
    inputs = [
        *text_inputs("input_ids", "attention_mask"),
        TensorInfo(name="sound", dtype="float32", shape=("batch", "length", 2)),
    ]

    def sample(pad: int) -> dict[str, NDArray[Any]]:
        return {
            "input_ids": np.array([4, 5, 6] + [77] * pad),
            "attention_mask": np.array([1, 1, 1] + [0] * pad),
            "sound": np.array([[1, 2], [3, 4], [5, 6]] + [[99, 99]] * pad, np.float32),
        }

    short, long = (input_features(sample(pad), inputs, 1) for pad in (0, 9))
    assert (short.pop("padding_fraction"), long.pop("padding_fraction")) == (0, 0.75)
    assert short == long
    assert short["length"] == 3
    assert short["sound.absmax"] == 6
    counts = [input_counts(sample(pad), inputs)["input_ids.frequencies"] for pad in (0, 9)]
    np.testing.assert_array_equal(counts[0], counts[1])
    assert counts[0].sum() == 3


def test_without_a_mask_the_free_dimensions_are_features() -> None:
    inputs = [TensorInfo(name="x", dtype="float32", shape=("batch", "time", 2))]
    assert input_features({"x": np.ones((7, 2), np.float32)}, inputs)["time"] == 7


def _batch(samples: list[dict[str, NDArray[Any]]], texts: list[str | None]) -> Batch:
    infos = tuple(SampleInfo(id=f"s[{i}]", digest=str(i)) for i in range(len(samples)))
    records = [{"text": text} for text in texts]
    return Batch(infos, tuple(range(len(samples))), samples, records)


def test_text_features_need_text_in_every_record_and_tables_share_what_both_have() -> None:
    extract = Extractor(tuple(text_inputs("input_ids")))
    samples = [{"input_ids": np.array([4, 5])}, {"input_ids": np.array([6])}]
    with_text = extract(_batch(samples, ["a b", "\u5bbd"]))
    without = extract(_batch(samples, ["a b", None]))
    assert with_text.names[: len(without.names)] == without.names
    assert set(with_text.names) - set(without.names) == set(text_features(""))
    scripts = [SCRIPTS[int(i)] for i in with_text.categories["text.script"].argmax(axis=1)]
    assert scripts == ["Latin", "Han"]
    narrowed, joined = with_text.narrowed(without), concatenate([with_text, without])
    assert narrowed.names == joined.names == without.names
    np.testing.assert_array_equal(narrowed.values, without.values)
    assert joined.ids == ("s[0]", "s[1]") * 2 and not joined.categories


def test_images_of_records_tell_their_size_before_the_model_gets_them() -> None:
    pictures = [Image.new("L", (30, 20)), Image.new("L", (64, 48))]
    batch = _batch([{}, {}], [None, None])
    records = [{"image": picture} for picture in pictures]
    found = Extractor(())(replace(batch, records=records))
    assert found.names == ("image.width", "image.height")
    np.testing.assert_array_equal(found.values, [[30, 20], [64, 48]])
    mixed = Extractor(())(replace(batch, records=[records[0], {"image": np.zeros(3)}]))
    assert mixed.names == ()


def test_token_frequencies_are_added_on_demand() -> None:
    extract = Extractor(tuple(text_inputs("input_ids")))
    samples = [{"input_ids": np.array([4, 5, 5])}, {"input_ids": np.array([6])}]
    found = extract.with_counts(extract(_batch(samples, ["a", "b"])), samples)
    expected = [token_counts(sample["input_ids"]) for sample in samples]
    np.testing.assert_array_equal(found.counts["input_ids.frequencies"], np.stack(expected))


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("Ein Satz, 12!", "Latin"),
        ("\u0395\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac", "Greek"),
        ("\u0440\u0443\u0441\u0441\u043a\u0438\u0439 x", "Cyrillic"),
        ("\u4e2d\u6587 ab \u5b57\u5b57", "Han"),
        ("\u3053\u308c\u306f\u6f22", "Kana"),
        ("\ud55c\uad6d\uc5b4", "Hangul"),
        ("12, 3!", "none"),
        ("", "none"),
        ("\u10d0\u10d1", "other"),
    ],
)
def test_the_script_of_a_text_is_that_of_most_letters(text: str, script: str) -> None:
    assert SCRIPTS[script_of(text)] == script
    letters = [unicodedata.name(letter) for letter in text if letter.isalpha()]
    if script not in ("none", "other", "Han"):
        assert any(name.startswith((script.upper(), "HIRAGANA")) for name in letters)


def test_tables_are_sorted_by_content() -> None:
    rows = table(np.arange(3.0)[:, None], digests=("b", "c", "a"))
    assert rows.sorted().values[:, 0].tolist() == [2, 0, 1]
