"""Samples in a static model: padded to the bucket, results cut back to what is real."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantflow.artifacts.model_record import ModelRecord
from quantflow.errors import QuantflowError
from quantflow.runtime.bucket_run import as_vector, batch_size, fit_sample, run_samples

from .sequence_model import DIMS, TOKENS, Model, Sample, record, sample


def results(samples: list[Sample], about: ModelRecord, model: Model | None = None) -> list[Any]:
    found = dict(run_samples([model or Model()], samples, about, DIMS))
    return [found[index][0] for index in range(len(samples))]


# --- padding and cutting back ------------------------------------------------------------------


def test_every_inference_has_exactly_the_shape_of_the_bucket() -> None:
    model = Model()
    samples = [sample([1] * n) for n in (6, 2, 6, 5, 1)]
    results(samples, record(**TOKENS), model)
    assert [feeds["ids"].shape for feeds in model.feeds] == [(3, 6), (3, 6)]
    assert batch_size(record(), DIMS) == 3


def test_samples_are_padded_with_zeros_at_the_end_and_the_mask_with_them() -> None:
    fitted = fit_sample(sample([7, 8], [1, 1]), record(), DIMS)
    assert fitted["ids"].tolist() == [7, 8, 0, 0, 0, 0]
    assert fitted["m"].tolist() == [1, 1, 0, 0, 0, 0]
    assert fitted["ids"].dtype == np.int64


def test_results_are_cut_back_to_the_sample() -> None:
    found = results([sample([5, 6, 7]), sample([1, 2, 3, 4, 5, 6])], record(**TOKENS))
    assert found[0]["tokens"].tolist() == [[5, 5.5], [6, 6.5], [7, 7.5]]
    assert found[1]["tokens"].shape == (6, 2)


def test_positions_that_the_mask_calls_padding_are_left_out() -> None:
    # Left padding, right padding, and a hole.
    masks = ([0, 0, 1, 1], [1, 1, 0, 0], [1, 0, 0, 1])
    found = results([sample([5, 6, 7, 8], mask) for mask in masks], record(**TOKENS))
    assert [x["tokens"][:, 0].tolist() for x in found] == [[7, 8], [5, 6], [5, 8]]


def test_every_axis_that_is_the_length_is_cut_and_the_first_one_masked() -> None:
    about = record(square=("batch", "length", "length"))
    found = results([sample([2, 3, 4], [1, 1, 0])], about)
    assert found[0]["square"].tolist() == [[4, 6, 8], [6, 9, 12]]


def test_outputs_without_positions_are_whole() -> None:
    about = record(pooled=("batch", 6), label=("batch",))
    found = results([sample([2, 3, 9], [1, 1, 0])], about)
    assert found[0]["pooled"].tolist() == [5] * 6 and found[0]["label"] == 2


def test_a_fixed_length_is_masked_too_but_an_embedding_of_that_width_is_not() -> None:
    about = record(length=6, tokens=("batch", 6, 2), pooled=("batch", 6))
    found = results([sample([1, 2, 3, 4, 5, 6], [1, 1, 1, 1, 0, 0])], about)
    assert found[0]["tokens"][:, 0].tolist() == [1, 2, 3, 4]
    assert found[0]["pooled"].tolist() == [10] * 6


def test_a_sample_that_is_longer_than_the_bucket_is_refused() -> None:
    with pytest.raises(QuantflowError) as caught:
        results([sample(range(7))], record(**TOKENS))
    (problem,) = caught.value.problems
    assert problem.code == "QF320" and "(7,)" in problem.what and "(6,)" in problem.what


def test_where_another_bucket_is_large_enough_the_order_is_advised() -> None:
    def advice(**other: int) -> str:
        with pytest.raises(QuantflowError) as caught:
            fit_sample(sample(range(7)), record(), DIMS, [{**DIMS, **other}])
        return caught.value.problems[0].fix

    assert "put the largest first" in advice(length=7)
    assert "larger bucket" in advice(batch=64) and "larger bucket" in advice(length=5)


def test_without_a_mask_nothing_is_padded() -> None:
    about = record(mask=False, **TOKENS)
    with pytest.raises(QuantflowError, match="QF320"):
        results([{"ids": np.arange(3)}], about)
    found = results([{"ids": np.arange(6)}], about)
    assert found[0]["tokens"].shape == (6, 2)


# --- several samples, several models -----------------------------------------------------------


def test_every_sample_meets_every_model_once_whatever_the_lengths() -> None:
    samples = [sample(range(1, n + 1)) for n in (6, 2, 6, 4, 2, 6, 1)]
    models = [Model(), Model(offset=100)]
    seen = dict(run_samples(models, samples, record(**TOKENS), DIMS))
    assert sorted(seen) == list(range(7))
    for index, (plain, moved) in seen.items():
        assert plain["tokens"][:, 0].tolist() == samples[index]["ids"].tolist()
        assert (moved["tokens"] - plain["tokens"] == 100).all()


def test_only_described_outputs_are_returned_in_their_order() -> None:
    about = record(label=("batch",), tokens=("batch", "length", 2))
    (found,) = results([sample([1, 2])], about)
    assert list(found) == ["label", "tokens"]


def test_only_float_outputs_are_compared() -> None:
    outputs = {"a": np.float32([[1, 2]]), "n": np.int64([9]), "b": np.float32([3])}
    assert as_vector(outputs).tolist() == [1, 2, 3]
    assert as_vector({"n": np.int64([9])}).shape == (0,)
