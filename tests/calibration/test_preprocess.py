"""Records become samples that fit the model, or are refused by their sample id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantflow.artifacts.model_record import TensorInfo
from quantflow.calibration.preprocess import Preprocessor, make_preprocessor, preprocess_digest
from quantflow.calibration.preprocess import preview as preview_of
from quantflow.config import PreprocessConfig
from quantflow.errors import QuantflowError

from .tiny_tokenizer import text_inputs, write_tokenizer

BERT = ("input_ids", "attention_mask", "token_type_ids")


def _text(
    base: Path, inputs: list[TensorInfo], padding: dict[str, Any] | None = None, **keys: Any
) -> Preprocessor:
    write_tokenizer(base / "tokenizer.json", padding=padding)
    config = PreprocessConfig(tokenizer="tokenizer.json", **keys)
    return make_preprocessor(config, inputs, base)


def _refusal(make: Preprocessor, record: dict[str, Any]) -> str:
    with pytest.raises(QuantflowError) as caught:
        make(record, "candidates[17]")
    assert "candidates[17]" in str(caught.value)
    return str(caught.value)


def test_text_is_padded_to_the_length_and_the_mask_says_where(tmp_path: Path) -> None:
    make = _text(tmp_path, text_inputs(*BERT), max_length=6)
    sample = make({"text": "red blue"}, "s")
    assert sample["input_ids"].tolist() == [2, 4, 6, 3, 0, 0]
    assert sample["attention_mask"].tolist() == [1, 1, 1, 1, 0, 0]
    assert sample["token_type_ids"].tolist() == [0] * 6
    assert {array.dtype for array in sample.values()} == {np.dtype(np.int64)}


def test_long_text_is_cut_and_keeps_its_special_tokens(tmp_path: Path) -> None:
    make = _text(tmp_path, text_inputs(*BERT), max_length=4)
    sample = make({"text": "red green blue red"}, "s")
    assert sample["input_ids"].tolist() == [2, 4, 5, 3]
    assert sample["attention_mask"].tolist() == [1, 1, 1, 1]


def test_without_padding_samples_keep_their_lengths(tmp_path: Path) -> None:
    make = _text(tmp_path, text_inputs(*BERT), max_length=6, pad="none")
    lengths = [make({"text": text}, "s")["input_ids"].shape for text in ("red", "red blue")]
    assert lengths == [(3,), (4,)]


def test_the_tokenizers_own_padding_side_and_token_are_kept(tmp_path: Path) -> None:
    padding = {"direction": "left", "pad_id": 1, "pad_token": "[UNK]", "length": 99}
    make = _text(tmp_path, text_inputs(*BERT), padding, max_length=5)
    sample = make({"text": "red"}, "s")
    assert sample["input_ids"].tolist() == [1, 1, 2, 4, 3]
    assert sample["attention_mask"].tolist() == [0, 0, 1, 1, 1]


def test_only_the_models_inputs_are_made_and_the_mask_may_have_any_name(tmp_path: Path) -> None:
    mask = TensorInfo(name="keep", dtype="bool", shape=("batch", "length"), mask=True)
    make = _text(tmp_path, [*text_inputs("input_ids"), mask], max_length=4)
    sample = make({"text": "red"}, "s")
    assert list(sample) == ["input_ids", "keep"]
    assert sample["keep"].tolist() == [True, True, True, False]
    assert make.notes == ()


def test_inputs_may_be_called_otherwise_than_the_tokenizers_fields(tmp_path: Path) -> None:
    ids, mask = text_inputs("ids", "m")
    names = {"ids": "input_ids", "m": "attention_mask"}
    make = _text(tmp_path, [ids, mask.model_copy(update={"mask": True})], max_length=4, names=names)
    sample = make({"text": "red"}, "s")
    assert sample["ids"].tolist() == [2, 4, 3, 0] and sample["m"].tolist() == [1, 1, 1, 0]
    assert make.notes == ()
    unmarked = _text(tmp_path, [ids, mask], names=names)
    assert "model.inputs.m.mask = true" in unmarked.notes[0]
    with pytest.raises(QuantflowError) as caught:
        _text(tmp_path, [ids, mask], names={"idz": "input_ids"})
    assert [problem.where for problem in caught.value.problems] == [
        "set.preprocess.names.idz",
        "set.preprocess.tokenizer",
        "set.preprocess.tokenizer",
    ]
    assert "[model.inputs]" in caught.value.problems[1].fix
    assert '"ids" = "input_ids"' in caught.value.problems[1].fix


def test_padding_without_a_mask_input_is_said(tmp_path: Path) -> None:
    ids = text_inputs("input_ids")
    assert "no mask input" in _text(tmp_path, ids).notes[0]
    assert _text(tmp_path, ids, pad="none").notes == ()


def test_an_input_no_tokenizer_makes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(QuantflowError, match="did you mean 'input_ids'") as caught:
        _text(tmp_path, text_inputs("inputids"))
    assert caught.value.problems[0].code == "QF305"


def test_bad_tokenizer_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{}")
    write_tokenizer(tmp_path / "nopad.json", pad="[NONE]")
    for name, part in (("broken.json", "not a readable"), ("nopad.json", "no padding token")):
        with pytest.raises(QuantflowError, match=part):
            make_preprocessor(PreprocessConfig(tokenizer=name), text_inputs(*BERT), tmp_path)


def test_records_without_text_are_refused(tmp_path: Path) -> None:
    make = _text(tmp_path, text_inputs(*BERT))
    assert "did you mean 'txt'" in _refusal(make, {"txt": "red"})
    assert "NoneType, not text" in _refusal(make, {"text": None})


def test_the_records_own_columns_are_inputs_and_others_are_left_out(tmp_path: Path) -> None:
    inputs = [TensorInfo(name="x", dtype="float32", shape=("batch", 3))]
    make = make_preprocessor(PreprocessConfig(), inputs, tmp_path)
    sample = make({"x": [1.0, 2.5, 3.0], "label": "a"}, "s")
    assert list(sample) == ["x"]
    np.testing.assert_array_equal(sample["x"], np.float32([1, 2.5, 3]))
    assert "did you mean 'xs'" in _refusal(make, {"xs": [1.0]})


def test_a_users_function_makes_the_inputs(tmp_path: Path) -> None:
    (tmp_path / "qf_make.py").write_text(
        "def double(record): return {'x': [2 * v for v in record['v']]}\n"
        "def number(record): return 3\n"
        "def exits(record): raise SystemExit(3)\n"
    )
    inputs = [TensorInfo(name="x", dtype="int64", shape=("batch", 2))]

    def make(name: str) -> Preprocessor:
        return make_preprocessor(PreprocessConfig(function=name), inputs, tmp_path)

    assert make("qf_make:double")({"v": [1, 2]}, "s")["x"].tolist() == [2, 4]
    assert "KeyError" in _refusal(make("qf_make:double"), {"w": 1})
    assert "not int" in _refusal(make("qf_make:number"), {"v": [1, 2]})
    assert "SystemExit" in _refusal(make("qf_make:exits"), {"v": [1, 2]})


def test_previews_are_short_and_on_one_line() -> None:
    assert preview_of({"text": "a\n b"}, "text") == "a b"
    long = preview_of({"text": "x" * 100}, "text")
    assert len(long) == 60
    assert long.endswith("x…")
    assert preview_of({"x": 1}, "text") == ""


def test_the_digest_follows_settings_tokenizer_and_function(tmp_path: Path) -> None:
    write_tokenizer(tmp_path / "tokenizer.json")
    (tmp_path / "qf_pre.py").write_text("def f(record): return {}\n")
    settings = [
        PreprocessConfig(tokenizer="tokenizer.json"),
        PreprocessConfig(tokenizer="tokenizer.json", max_length=64),
        PreprocessConfig(function="qf_pre:f"),
    ]
    before = [preprocess_digest(config, tmp_path) for config in settings]
    assert len(set(before)) == 3
    write_tokenizer(tmp_path / "tokenizer.json", pad="<pad>")
    (tmp_path / "qf_pre.py").write_text("def f(record): return {'a': 1}\n")
    assert not set(before) & {preprocess_digest(config, tmp_path) for config in settings}
