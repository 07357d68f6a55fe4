"""Policies and pins: which groups' precision is given, and the plans that need no search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from quantflow.artifacts.model_record import Group, ModelRecord
from quantflow.artifacts.plan import PlannedGroup, PrecisionPlan
from quantflow.artifacts.ranges_record import Fp16Report, Island
from quantflow.config import PinConfig
from quantflow.errors import Problem, QuantflowError, did_you_mean

ATTENTION_ROLES = ("qkv", "attention_output")

Groups = dict[str, PlannedGroup]


def resolve_pins(record: ModelRecord, pins: Sequence[PinConfig]) -> Groups:
    """The groups that pins name, with the precision given.

    A pattern is matched against names of groups and of layers; of several pins for a group the last
    one counts.

    Raises:
        QuantflowError: QF510 for a pin that matches nothing, with near names (C8).
    """
    pinned, problems = Groups(), list[Problem]()
    for index, pin in enumerate(pins):
        found = [group.name for group in record.groups if _matches(group, pin)]
        where = f"plan.pins[{index}]"
        if not found and pin.pattern is not None:
            names = [name for group in record.groups for name in (group.name, *group.layers)]
            what = f"no group or layer matches {pin.pattern!r}"
            near = did_you_mean(pin.pattern.strip("*"), names)
            problems.append(Problem("QF510", what, where=where, fix=near))
        elif not found:
            roles = ", ".join(sorted({group.role for group in record.groups}))
            what = f"no group has the role {pin.role!r}"
            problems.append(Problem("QF510", what, where=where, fix=f"roles here: {roles}"))
        for name in found:
            reason = f"pinned by {pin.pattern or f'role {pin.role}'}"
            pinned[name] = PlannedGroup(precision=pin.precision, reason=reason)
    if problems:
        raise QuantflowError(problems)
    return pinned


def _matches(group: Group, pin: PinConfig) -> bool:
    if pin.pattern is None:
        return group.role == pin.role
    return any(fnmatchcase(name, pin.pattern) for name in (group.name, *group.layers))


def policy_none(record: ModelRecord, pinned: Mapping[str, PlannedGroup]) -> Groups:
    """Everything that can be INT8 is, but for pins."""
    int8 = PlannedGroup(precision="int8")
    return {group.name: pinned.get(group.name, int8) for group in record.groups}


def policy_attention(record: ModelRecord, pinned: Mapping[str, PlannedGroup]) -> Groups:
    """QKV groups and output projections stay in fp16, all else is INT8, but for pins."""
    int8 = PlannedGroup(precision="int8")
    fp16 = PlannedGroup(precision="fp16", reason="policy attention")
    return {
        group.name: pinned.get(group.name, fp16 if group.role in ATTENTION_ROLES else int8)
        for group in record.groups
    }


def default_plan(record: ModelRecord, fp16: Fp16Report, pins: Sequence[PinConfig]) -> PrecisionPlan:
    """The plan in force before stage 3 has run: policy `none`, and what overflows fp16 in fp32."""
    return plan_of("none", policy_none(record, resolve_pins(record, pins)), fp16.islands)


def plan_of(policy: str, groups: Groups, islands: Sequence[Island]) -> PrecisionPlan:
    """A plan with the islands that fp16 demands."""
    return PrecisionPlan(policy=policy, groups=groups, islands=tuple(islands))
