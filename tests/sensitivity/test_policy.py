"""Policy `none`: everything that can be INT8 is, and the fp32 islands are kept."""

from __future__ import annotations

from quantflow.artifacts.model_record import Group, ModelRecord
from quantflow.artifacts.ranges_record import Fp16Report, Island
from quantflow.sensitivity.policy import policy_none


def test_every_group_is_int8_and_the_islands_are_those_of_the_report() -> None:
    groups = tuple(
        Group(name=name, tensor=name, role="ffn", layers=(name,), macs=1) for name in ("b", "a")
    )
    record = ModelRecord(opset=18, inputs=(), outputs=(), layers=(), groups=groups, padding=())
    island = Island(node="n", op_type="Pow", tensor="t", absmax=1e6)
    plan = policy_none(record, Fp16Report(samples=1, tensors=(), islands=(island,)))
    assert plan.policy == "none" and plan.islands == (island,)
    assert {name: group.precision for name, group in plan.groups.items()} == {
        "a": "int8",
        "b": "int8",
    }
    assert plan.fp16_groups == [] and plan.island_nodes == {"n"}
