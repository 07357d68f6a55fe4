"""Single unfit records are left out by name; what is wrong with all of them still stops."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantflow.artifacts.model_record import TensorInfo
from quantflow.calibration.hygiene.unfit import fit_samples
from quantflow.calibration.preprocess import Preprocessor, make_preprocessor
from quantflow.config import PreprocessConfig
from quantflow.errors import QuantflowError

from .tiny_tokenizer import text_inputs, write_tokenizer

_INPUT = TensorInfo(name="x", dtype="float32", shape=("batch", 2))


def _columns() -> Preprocessor:
    def convert(record: Mapping[str, Any], sample: str) -> Mapping[str, Any]:
        return record

    return Preprocessor((_INPUT,), convert)


def test_records_that_are_not_finite_are_left_out_with_their_ids() -> None:
    records = [{"x": np.float32([i, np.nan if i in (1, 4) else i])} for i in range(6)]
    found = fit_samples(_columns().many, records, [f"candidates[{i}]" for i in range(6)])
    assert found.places == (0, 2, 3, 5)
    assert [sample["x"][0] for sample in found.samples] == [0, 2, 3, 5]
    assert [unfit.id for unfit in found.unfit] == ["candidates[1]", "candidates[4]"]
    assert {unfit.code for unfit in found.unfit} == {"QF315"}
    assert "1 values that are NaN or Inf" in found.unfit[0].what


def test_without_unfit_records_all_are_made_at_once() -> None:
    calls: list[int] = []

    def make(records: Any, samples: Any) -> list[Any]:
        calls.append(len(records))
        return _columns().many(records, samples)

    records = [{"x": np.zeros(2, np.float32)}] * 5
    assert fit_samples(make, records, list("abcde")).places == (0, 1, 2, 3, 4)
    assert calls == [5]


def test_an_empty_text_does_not_take_its_batch_with_it(tmp_path: Path) -> None:
    write_tokenizer(tmp_path / "tokenizer.json")
    config = PreprocessConfig(tokenizer="tokenizer.json", max_length=8, pad="none")
    inputs = text_inputs("input_ids", "attention_mask")
    preprocess = make_preprocessor(config, inputs, tmp_path)
    object.__setattr__(preprocess.convert.tokenizer, "post_processor", None)  # type: ignore[attr-defined]
    records = [{"text": text} for text in ("red", "", "blue green")]
    found = fit_samples(preprocess.many, records, ["a", "b", "c"])
    assert found.places == (0, 2)
    assert [(unfit.id, unfit.code) for unfit in found.unfit] == [("b", "QF307")]


def test_a_wrong_shape_still_stops() -> None:
    records = [{"x": np.float32([np.nan, 0])}, {"x": np.zeros(3, np.float32)}]
    with pytest.raises(QuantflowError) as caught:
        fit_samples(_columns().many, records, ["a", "b"])
    assert caught.value.problems[0].code == "QF306"
    assert caught.value.problems[0].where == "b"
