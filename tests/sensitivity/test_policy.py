"""Policies and pins: what stays in fp16 without a search."""

from __future__ import annotations

from typing import Any

import pytest

from quantflow.artifacts.model_record import Group, ModelRecord, Role
from quantflow.artifacts.plan import PlannedGroup
from quantflow.artifacts.ranges_record import Fp16Report, Island
from quantflow.config import PinConfig
from quantflow.errors import QuantflowError
from quantflow.sensitivity.policy import (
    default_plan,
    policy_attention,
    policy_none,
    resolve_pins,
)

GROUPS: list[tuple[str, Role, tuple[str, ...]]] = [
    ("l.0.q+k", "qkv", ("l.0.q", "l.0.k")),
    ("l.0.o", "attention_output", ("l.0.o",)),
    ("l.0.fc1", "ffn", ("l.0.fc1",)),
    ("head", "classifier", ("head",)),
]
RECORD = ModelRecord(
    opset=18,
    inputs=(),
    outputs=(),
    layers=(),
    groups=tuple(
        Group(name=name, tensor=name, role=role, layers=layers, macs=1)
        for name, role, layers in GROUPS
    ),
    padding=(),
)


def pin(**keys: Any) -> PinConfig:
    return PinConfig(**{"precision": "fp16", **keys})


def fp16(groups: dict[str, PlannedGroup]) -> set[str]:
    assert set(groups) == {name for name, _, _ in GROUPS}
    return {name for name, group in groups.items() if group.precision == "fp16"}


def test_policy_none_keeps_nothing_in_fp16_but_pins() -> None:
    assert fp16(policy_none(RECORD, {})) == set()
    assert fp16(policy_none(RECORD, resolve_pins(RECORD, [pin(role="ffn")]))) == {"l.0.fc1"}


def test_policy_attention_keeps_projections_in_fp16_but_for_pins() -> None:
    assert fp16(policy_attention(RECORD, {})) == {"l.0.q+k", "l.0.o"}
    pins = resolve_pins(RECORD, [pin(pattern="l.0.o", precision="int8"), pin(pattern="head")])
    assert fp16(policy_attention(RECORD, pins)) == {"l.0.q+k", "head"}


def test_the_default_plan_has_the_islands_of_the_report() -> None:
    island = Island(node="n", op_type="Pow", tensor="t", absmax=1e6)
    plan = default_plan(RECORD, Fp16Report(samples=1, tensors=(), islands=(island,)), ())
    assert plan.policy == "none" and plan.islands == (island,) and plan.fp16_groups == []
    assert fp16(plan.groups) == set()


@pytest.mark.parametrize(
    ("pattern", "pinned"),
    [("l.0.q", {"l.0.q+k"}), ("l.0.q+k", {"l.0.q+k"}), ("l.0.*", {"l.0.q+k", "l.0.o", "l.0.fc1"}),
     ("*fc1", {"l.0.fc1"}), ("L.0.*", None)],
)  # fmt: skip
def test_a_pattern_names_groups_or_layers_and_minds_case(
    pattern: str, pinned: set[str] | None
) -> None:
    if pinned is None:
        with pytest.raises(QuantflowError, match="QF510"):
            resolve_pins(RECORD, [pin(pattern=pattern)])
        return
    found = resolve_pins(RECORD, [pin(pattern=pattern)])
    assert set(found) == pinned and all(pattern in group.reason for group in found.values())


def test_of_several_pins_the_last_one_counts() -> None:
    pins = [pin(pattern="l.*"), pin(role="ffn", precision="int8")]
    assert fp16(policy_none(RECORD, resolve_pins(RECORD, pins))) == {"l.0.q+k", "l.0.o"}


def test_pins_that_match_nothing_are_named_all_at_once_with_near_names() -> None:
    # C8: a filter that matches nothing must not end in silence.
    with pytest.raises(QuantflowError) as caught:
        resolve_pins(RECORD, [pin(pattern="l.0.fc2"), pin(pattern="head"), pin(role="conv")])
    found = caught.value.problems
    assert [(p.code, p.where) for p in found] == [
        ("QF510", "plan.pins[0]"), ("QF510", "plan.pins[2]"),
    ]  # fmt: skip
    assert "'l.0.fc1'" in found[0].fix and "ffn" in found[1].fix
