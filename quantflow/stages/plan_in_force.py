"""The precision plan that holds now."""

from __future__ import annotations

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.ranges_record import Fp16Report
from quantflow.sensitivity.policy import default_plan
from quantflow.stages.stage import Context


def plan_in_force(context: Context, record: ModelRecord) -> PrecisionPlan:
    """What stage 3 found, or a person made of it; before stage 3, the default."""
    path = context.folder("30_sweep") / "plan.json"
    if path.exists():
        return PrecisionPlan.read(path)
    fp16 = Fp16Report.read(context.quantized_ranges / "fp16.json")
    return default_plan(record, fp16, context.config.plan.pins)
