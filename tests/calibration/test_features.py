"""Features of samples: counted by hand, padding left out, the model's space kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from quantflow.artifacts.model_record import ModelRecord, TensorInfo
from quantflow.artifacts.sample_set import SampleInfo
from quantflow.calibration.draw import Drawn
from quantflow.calibration.features.extract import Extractor, input_counts, input_features
from quantflow.calibration.features.model import DIRECTIONS, OutputFeatures
from quantflow.calibration.features.table import shared
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


def _drawn(samples: list[dict[str, NDArray[Any]]], texts: list[str | None]) -> Drawn:
    infos = tuple(SampleInfo(id=f"s[{i}]", digest=str(i)) for i in range(len(samples)))
    return Drawn(infos, samples, tuple(texts))


def test_text_features_need_text_in_every_record_and_tables_share_what_both_have() -> None:
    inputs = tuple(text_inputs("input_ids"))
    samples = [{"input_ids": np.array([4, 5])}, {"input_ids": np.array([6])}]
    with_text = Extractor(inputs)(_drawn(samples, ["a b", "c"]), "test")
    without = Extractor(inputs)(_drawn(samples, ["a b", None]), "test")
    assert with_text.names[: len(without.names)] == without.names
    assert set(with_text.names) - set(without.names) == set(text_features(""))
    one, other = shared(with_text, without)
    assert one.names == other.names == without.names
    np.testing.assert_array_equal(one.values, without.values)
    assert one.ids == ("s[0]", "s[1]")


class _Runner:
    """A model whose output is a linear function of the tokens, position by position."""

    outputs = ("hidden",)

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor
        self.lengths: list[int] = []

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        ids = feeds["input_ids"].astype(np.float32)
        self.lengths.append(ids.shape[1])
        return {"hidden": np.stack([ids, ids * ids], axis=-1) * self.factor}


def _model() -> ModelRecord:
    hidden = TensorInfo(name="hidden", dtype="float32", shape=("batch", "length", 2))
    return ModelRecord(
        opset=18,
        inputs=tuple(text_inputs("input_ids", "attention_mask")),
        outputs=(hidden,),
        layers=(),
        groups=(),
        padding=(),
    )


def _padded(rng: np.random.Generator, real: int, size: int) -> dict[str, NDArray[Any]]:
    ids = np.full(size, 999)
    ids[:real] = rng.integers(0, 9, real)
    return {"input_ids": ids, "attention_mask": (np.arange(size) < real).astype(np.int64)}


def test_outputs_are_averaged_over_real_positions_and_projected() -> None:
    rng = np.random.default_rng(0)
    samples = [_padded(rng, int(real), 100) for real in rng.integers(1, 90, 11)]
    runner = _Runner()
    features = OutputFeatures(runner, _model(), 4)
    found = features(samples, "test")
    assert features.names[1] == "hidden[1]"
    assert found.shape == (11, DIRECTIONS)
    means = np.array(
        [[np.mean(x["input_ids"][x["attention_mask"] > 0] ** k) for k in (1, 2)] for x in samples]
    )
    # A linear map of the means: the same for all samples, and of full rank.
    mapped, *_ = np.linalg.lstsq(means, found, rcond=None)
    np.testing.assert_allclose(means @ mapped, found, atol=1e-5)
    assert np.linalg.matrix_rank(mapped) == 2
    assert set(runner.lengths) <= {32, 64, 96}


def test_projections_keep_distances_on_average() -> None:
    inputs = tuple(text_inputs("input_ids", "attention_mask"))
    rng = np.random.default_rng(1)
    pairs = [_padded(rng, 20, 20) for _ in range(200)]
    found = OutputFeatures(_Runner(), _model().model_copy(update={"inputs": inputs}), 8)(pairs, "t")
    means = np.array([[x["input_ids"].mean(), (x["input_ids"] ** 2).mean()] for x in pairs])
    ratio = np.square(found[::2] - found[1::2]).sum() / np.square(means[::2] - means[1::2]).sum()
    assert 0.4 < ratio < 2


def test_outputs_that_are_not_finite_become_zero() -> None:
    rng = np.random.default_rng(2)
    samples = [_padded(rng, 5, 8)]
    found = OutputFeatures(_Runner(float("nan")), _model(), 2)(samples, "test")
    np.testing.assert_array_equal(found, 0)


def test_tables_are_sorted_by_content() -> None:
    rows = table(np.arange(3.0)[:, None], digests=("b", "c", "a"))
    assert rows.sorted().values[:, 0].tolist() == [2, 0, 1]


@pytest.mark.parametrize("rows", [1, 6])
def test_a_mask_with_further_axes_leaves_the_outputs_whole(rows: int) -> None:
    # As padding does elsewhere: a mask of (batch, 1, length) maps to no position of a tensor.
    shape = ("batch", 1, "length") if rows == 1 else ("batch", "length", "length")
    ids, mask = text_inputs("input_ids", "attention_mask")
    record = _model().model_copy(update={"inputs": (ids, mask.model_copy(update={"shape": shape}))})
    rng = np.random.default_rng(3)
    samples = [_padded(rng, 4, 6) for _ in range(3)]
    whole = [{**x, "attention_mask": np.tile(x["attention_mask"], (rows, 1))} for x in samples]
    unmasked = _model().model_copy(update={"inputs": (ids,)})
    expected = [{"input_ids": x["input_ids"]} for x in samples]
    np.testing.assert_array_equal(
        OutputFeatures(_Runner(), record, 2)(whole, "test"),
        OutputFeatures(_Runner(), unmasked, 2)(expected, "test"),
    )
