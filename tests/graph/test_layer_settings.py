"""Overrides: the last one that matches counts, key by key; none is without effect (C24, C8)."""

from __future__ import annotations

from typing import Any

import pytest

from quantflow.artifacts.model_record import Group, Layer, ModelRecord
from quantflow.config import OverrideConfig, QuantizationConfig
from quantflow.errors import Problem, QuantflowError
from quantflow.graph.layer_settings import LayerSettings, layer_settings


def layer(name: str, tensor: str, role: str, op_type: str = "MatMul", **changes: Any) -> Layer:
    fields = {
        "name": name, "node": name, "op_type": op_type, "role": role, "group": f"group of {tensor}",
        "input": tensor, "weight": f"{name}.weight", "bias": None, "bias_node": None,
        "output": f"{name}.out", "macs": 1, **changes,
    }  # fmt: skip
    return Layer.model_validate(fields)


def record(*layers: Layer) -> ModelRecord:
    tensors = dict.fromkeys(x.input for x in layers if x.group)
    groups = [
        Group(
            name=f"group of {tensor}",
            tensor=tensor,
            role="other",
            layers=tuple(x.name for x in layers if x.group and x.input == tensor),
            macs=1,
        )
        for tensor in tensors
    ]
    return ModelRecord(
        opset=18, inputs=(), outputs=(), layers=layers, groups=tuple(groups), padding=()
    )


RECORD = record(
    layer("l.0.q", "hidden", "qkv"),
    layer("l.0.k", "hidden", "qkv"),
    layer("l.0.up", "normed", "ffn"),
    layer("l.0.down", "gated", "ffn"),
    layer("stem", "pixels", "conv", "Conv"),
    layer("head", "pooled", "classifier", "Gemm"),
    layer("odd", "x", "other", group="", float_reason="the weight is not 2-D"),
)


def settle(*overrides: dict[str, Any], base: ModelRecord = RECORD, **config: Any) -> LayerSettings:
    given = tuple(OverrideConfig.model_validate(entry) for entry in overrides)
    return layer_settings(base, QuantizationConfig(**config, overrides=given))


def refused(*overrides: dict[str, Any], **config: Any) -> list[Problem]:
    with pytest.raises(QuantflowError) as caught:
        settle(*overrides, **config)
    return list(caught.value.problems)


def test_without_overrides_every_tensor_and_layer_has_the_settings_for_all() -> None:
    found = settle(estimator="kl", symmetric=True, percentile=99, weight_granularity="per-tensor")
    assert set(found.tensors) == {"hidden", "normed", "gated", "pixels", "pooled"}
    for settings in found.tensors.values():
        assert (settings.estimator, settings.symmetric, settings.percentile) == ("kl", True, 99.0)
        assert settings.origin == ""
    assert found.granularity == {
        **dict.fromkeys(("l.0.q", "l.0.k", "l.0.up", "l.0.down", "head"), "per-tensor"),
        "stem": "per-channel",  # the dialect has no other scales for convolutions
    }


def test_a_pattern_a_role_or_a_group_name_picks_layers_out() -> None:
    by_pattern = settle({"pattern": "*.down", "estimator": "mse"})
    assert [x for x, s in by_pattern.tensors.items() if s.estimator == "mse"] == ["gated"]
    by_role = settle({"role": "ffn", "symmetric": True})
    assert [x for x, s in by_role.tensors.items() if s.symmetric] == ["normed", "gated"]
    by_group = settle({"pattern": "group of hidden", "weight_granularity": "per-tensor"})
    assert [x for x, g in by_group.granularity.items() if g == "per-tensor"] == ["l.0.q", "l.0.k"]


def test_the_last_match_counts_key_by_key() -> None:
    found = settle(
        {"role": "ffn", "estimator": "percentile", "percentile": 99.9},
        {"pattern": "*.down", "percentile": 99.0, "symmetric": True},
        {"pattern": "*.down", "percentile": 98.0},
    )
    down, up = found.tensors["gated"], found.tensors["normed"]
    assert (down.estimator, down.symmetric, down.percentile) == ("percentile", True, 98.0)
    assert (up.estimator, up.symmetric, up.percentile) == ("percentile", False, 99.9)
    assert "percentile by quantization.overrides[2]" in down.origin
    assert "symmetric by quantization.overrides[1]" in down.origin
    assert "estimator by quantization.overrides[0]" in down.origin


def test_a_pattern_for_one_layer_of_a_group_sets_the_tensor_that_all_of_it_read() -> None:
    found = settle({"pattern": "l.0.q", "estimator": "minmax", "weight_granularity": "per-tensor"})
    assert found.tensors["hidden"].estimator == "minmax"
    # The weight is each layer's own.
    assert found.granularity["l.0.q"] == "per-tensor"
    assert found.granularity["l.0.k"] == "per-channel"


@pytest.mark.parametrize(
    "values", [("estimator", "kl", "mse"), ("symmetric", True, False), ("percentile", 99.0, 98.0)]
)
def test_layers_of_one_tensor_cannot_be_told_different_things(
    values: tuple[str, Any, Any],
) -> None:
    key, first, second = values
    (problem,) = refused({"pattern": "l.0.q", key: first}, {"pattern": "l.0.k", key: second})
    assert problem.code == "QF512"
    assert all(word in problem.what for word in ("hidden", "l.0.q", "l.0.k", key))
    # Told the same they are fine, and so are different granularities.
    settle({"pattern": "l.0.q", key: first}, {"pattern": "l.0.k", key: first})


def test_a_pattern_that_matches_nothing_is_an_error_with_near_names() -> None:
    (problem,) = refused({"pattern": "l.0.dwon", "estimator": "kl"})
    assert problem.code == "QF511" and problem.where == "quantization.overrides[0]"
    assert "'l.0.down'" in problem.fix


def test_a_role_that_no_layer_has_is_an_error_that_lists_those_there_are() -> None:
    (problem,) = refused({"role": "attention_output", "estimator": "kl"})
    assert problem.code == "QF511" and problem.fix == "roles here: classifier, conv, ffn, qkv"


def test_a_layer_that_stays_float_is_named_with_the_reason() -> None:
    (problem,) = refused({"pattern": "od?", "symmetric": True})
    assert problem.code == "QF511" and "the weight is not 2-D" in problem.fix


def test_all_problems_are_told_at_once() -> None:
    found = refused(
        {"pattern": "nothing", "estimator": "kl"}, {"pattern": "void", "percentile": 99}
    )
    assert [problem.where for problem in found] == [
        "quantization.overrides[0]",
        "quantization.overrides[1]",
    ]


def test_per_tensor_weights_of_convolutions_alone_are_refused_and_among_others_left_out() -> None:
    (problem,) = refused({"role": "conv", "weight_granularity": "per-tensor"})
    assert problem.code == "QF512" and "stem" in problem.what
    found = settle({"pattern": "*", "weight_granularity": "per-tensor"})
    assert found.granularity["stem"] == "per-channel"
    assert found.granularity["head"] == "per-tensor"


PRODUCT = record(layer("scores", "q", "other", weight="", second_input="k"), layer("v", "q", "qkv"))


def test_a_product_of_two_variables_is_symmetric_whatever_is_set_for_all() -> None:
    found = settle(base=PRODUCT, symmetric=False)
    assert {x: s.symmetric for x, s in found.tensors.items()} == {"q": True, "k": True}


def test_a_product_of_two_variables_takes_settings_for_both_of_its_inputs() -> None:
    found = settle({"pattern": "scores", "estimator": "mse"}, base=PRODUCT)
    assert {s.estimator for s in found.tensors.values()} == {"mse"}
    with pytest.raises(QuantflowError) as caught:
        settle({"pattern": "v", "symmetric": False}, base=PRODUCT)
    assert caught.value.problems[0].code == "QF512"
