"""Per-layer settings, buckets and numbers as the configuration takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quantflow.config import check_config
from tests.test_config import only, with_keys


@pytest.mark.parametrize("wrong", [True, "16", 16.0])
@pytest.mark.parametrize(
    "key",
    [
        *("run__seed", "set__samples", "set__preprocess__max_length", "runtime__threads"),
        *("runtime__batch", "atc__timeout_s", "plan__samples"),
    ],
)
def test_a_whole_number_is_neither_a_boolean_nor_a_text(key: str, wrong: Any) -> None:
    assert only(with_keys(**{key: wrong})).code == "QF103"


@pytest.mark.parametrize("wrong", [True, "99.5"])
@pytest.mark.parametrize("key", ["quantization__percentile", "budget__cosine_mean"])
def test_a_number_is_neither_a_boolean_nor_a_text(key: str, wrong: Any) -> None:
    assert only(with_keys(**{key: wrong})).code == "QF103"


def test_a_whole_number_stands_for_a_number() -> None:
    config = check_config(with_keys(quantization__percentile=99), base=Path()).config
    assert config.quantization.percentile == 99.0


@pytest.mark.parametrize("wrong", [1, 0, "true", "yes"])
@pytest.mark.parametrize("key", ["quantization__symmetric", "target__fp19_dequant"])
def test_a_switch_is_true_or_false(key: str, wrong: Any) -> None:
    assert only(with_keys(**{key: wrong})).code == "QF103"


@pytest.mark.parametrize("size", [True, "4", 0, -1, 2**31, 4.0])
def test_sizes_of_a_bucket_are_whole_positive_numbers(size: Any) -> None:
    assert only(with_keys(target__buckets=[{"batch": size}])).where == "target.buckets.0.batch"


def test_a_bucket_is_given_once() -> None:
    buckets = [{"batch": 1, "length": 8}, {"batch": 2, "length": 8}, {"length": 8, "batch": 1}]
    problem = only(with_keys(target__buckets=buckets))
    assert problem.code == "QF103" and problem.where == "target.buckets"
    assert "buckets 0 and 2 are the same" in problem.what


def overrides(*entries: dict[str, Any]) -> dict[str, Any]:
    return with_keys(quantization__overrides=list(entries))


def test_an_override_holds_what_it_sets_and_nothing_else() -> None:
    tree = overrides(
        {"pattern": "*.down", "estimator": "percentile", "percentile": 99.9},
        {"role": "classifier", "weight_granularity": "per-tensor", "symmetric": False},
    )
    first, second = check_config(tree, base=Path()).config.quantization.overrides
    assert first.settings == {"estimator": "percentile", "percentile": 99.9}
    assert second.settings == {"weight_granularity": "per-tensor", "symmetric": False}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"estimator": "kl"}, "exactly one of 'pattern' and 'role'"),
        ({"pattern": "*", "role": "ffn", "estimator": "kl"}, "exactly one of"),
        ({"pattern": "*"}, "sets nothing"),
        ({"pattern": "*", "estimator": "entropy"}, "'auto'"),
        ({"pattern": "*", "percentile": 0.999}, "greater than 50"),
        ({"pattern": "*", "percentile": True}, "valid number"),
        ({"role": "mlp", "estimator": "kl"}, "'qkv'"),
        ({"pattern": "*", "weight_granularity": "per-group"}, "'per-tensor'"),
    ],
)
def test_an_override_that_makes_no_sense_is_refused(entry: dict[str, Any], said: str) -> None:
    problem = only(overrides(entry))
    assert problem.code == "QF103" and said in problem.what
    assert problem.where.startswith("quantization.overrides.0")


def test_a_misspelt_key_of_an_override_is_named_with_the_nearest_one() -> None:
    problem = only(overrides({"pattern": "*", "estimatr": "kl"}))
    assert problem.code == "QF102" and "'estimator'" in problem.fix


def test_a_precision_in_an_override_is_sent_to_the_pins() -> None:
    problem = only(overrides({"pattern": "*", "estimator": "kl", "precision": "fp16"}))
    assert problem.code == "QF102" and problem.where == "quantization.overrides.0.precision"
    assert "plan.pins" in problem.fix


def test_optional_layers_are_off_and_named_by_kind() -> None:
    assert check_config(with_keys(), base=Path()).config.quantization.optional_layers == ()
    kinds = ["AveragePool", "MatMul"]
    tree = with_keys(quantization__optional_layers=kinds)
    config = check_config(tree, base=Path()).config
    assert config.quantization.optional_layers == tuple(kinds)
    assert "'AveragePool'" in only(with_keys(quantization__optional_layers=["MaxPool"])).what
