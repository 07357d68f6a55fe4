"""Policies: from the model and its fp16 report to a precision plan."""

from __future__ import annotations

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PlannedGroup, PrecisionPlan
from quantflow.artifacts.ranges_record import Fp16Report


def policy_none(record: ModelRecord, fp16: Fp16Report) -> PrecisionPlan:
    """Everything that can be INT8 is; what fp16 cannot hold stays in fp32."""
    return PrecisionPlan(
        policy="none",
        groups={group.name: PlannedGroup(precision="int8") for group in record.groups},
        islands=fp16.islands,
    )
