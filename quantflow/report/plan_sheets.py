"""Tables of plans: the one in force, the policies side by side, and those that were tried."""

from __future__ import annotations

from math import inf, isnan

from quantflow.artifacts.plan import PlannedGroup, PrecisionPlan
from quantflow.artifacts.sweep_record import CurvePoint, PolicyResult, SweepRecord
from quantflow.report.columns import Column, sheet_of
from quantflow.report.measures import budget_texts, measure_columns
from quantflow.report.sheet import Sheet, cosine_text, count_text, share_text

_FP16_REASONS = ("sensitivity ", "policy ")
"""How reasons begin that stage 3 gives for fp16 alone."""

BARELY = "yes, barely"
_COST = "Est. cost is estimated from MACs and boundaries, 1 with all in fp16; nothing was timed."


def plan_sheet(plan: PrecisionPlan, *, edited: bool = False) -> Sheet:
    """What is not INT8 and why: groups, then nodes; last, how many groups are INT8."""
    told = {name: group for name, group in plan.groups.items() if group.precision == "fp16"}
    told |= {name: group for name, group in plan.groups.items() if group.reason}
    ordered = sorted(told.items(), key=lambda item: item[1].precision)
    rows = [(name, group.precision, _why(group, edited=edited)) for name, group in ordered]
    rows += [
        (x.node, "fp32", f"{x.tensor} reaches {x.absmax:.4g}, fp16 ends at 65504")
        for x in plan.islands
    ]
    others = len(plan.groups) - len(told)
    if others:
        kind = f"{'other ' if rows else ''}group{'s' if others > 1 else ''}"
        rows.append((f"{others} {kind}", "int8", ""))
    head = ("group or node", "precision", "why")
    note = "Edited since stage 3 wrote it." if edited else ""
    return Sheet(f"Precision plan, policy {plan.policy}", head, "lll", tuple(rows), note)


def _why(group: PlannedGroup, *, edited: bool) -> str:
    """The reason, unless a person has changed the precision that it was given for."""
    if group.precision == "int8":
        return "edited" if group.reason.startswith(_FP16_REASONS) else group.reason
    return group.reason or ("edited" if edited else "")


def policies_sheet(sweep: SweepRecord, *, edited: bool = False) -> Sheet:
    """The policies' plans side by side, the one in force marked; what the budget asks for below."""
    policies, in_force = sweep.policies, "" if edited else sweep.policy
    names = tuple(f"{x.policy} *" if x.policy == in_force else x.policy for x in policies)
    least, most = sweep.least_int8_fraction, sweep.most_fp16_groups
    shares = tuple(share_text(x.int8_mac_fraction) for x in policies)
    columns = [
        Column("policy", names, "l", foot="budget"),
        Column("meets budget", tuple(map(_meets, policies)), "l"),
        *measure_columns([x.measures for x in policies]),
        Column("cosine min", tuple(cosine_text(x.cosine_min) for x in policies), spare=8),
        Column("INT8 MACs", shares, foot="" if least is None else f">= {100 * least:.6g}%"),
        Column(
            "fp16 groups",
            tuple(str(x.fp16_groups) for x in policies),
            foot="" if most is None else f"<= {most}",
            spare=2,
        ),
        Column("boundaries", tuple(str(x.boundaries) for x in policies), spare=3),
        Column("est. cost", tuple(_cost_text(x.cost) for x in policies), spare=4),
    ]
    note = (
        f"Lowered deploy models on {count_text(sweep.verification_samples)} held-out samples. "
        f"Boundaries: quantize and dequantize nodes. {_COST} "
    )
    if any(_meets(x) == BARELY for x in policies):
        note += "Barely: the 95% interval reaches beyond the limit. "
    note += "The plan in force was edited and is none of these." if edited else "* is in force."
    return sheet_of("Policies", columns, note, footed=True)


def _cost_text(cost: float) -> str:
    return f"{cost:.3f}"


def _meets(result: PolicyResult) -> str:
    if not result.meets_budget:
        return "no"
    return "yes" if all(x.meets_surely for x in result.measures) else BARELY


def curve_sheet(sweep: SweepRecord, plan: PrecisionPlan | None) -> Sheet:
    """The plans that were tried, the most INT8 first; the plan in force is marked."""
    in_force = plan.fp16_groups if plan is not None else None
    points = sorted(sweep.curve, key=_most_int8_first)
    steps = tuple(f"{x.step} *" if sorted(x.fp16_groups) == in_force else x.step for x in points)
    columns = [
        Column("INT8 MACs", tuple(share_text(x.int8_mac_fraction) for x in points)),
        Column("fp16 groups", tuple(str(len(x.fp16_groups)) for x in points)),
        Column("est. cost", tuple(_cost_text(x.cost) for x in points), spare=2),
        *measure_columns([x.measures for x in points]),
        Column("search", steps, "l"),
    ]
    note = (
        f"On the {count_text(sweep.search_samples)} calibration samples of the search. The budget: "
        f"{', '.join(budget_texts(sweep))}. {_COST} * is in force."
    )
    if not points:
        note = f"Policy {sweep.policy} searches nothing; policy auto does."
    return sheet_of("Plans tried", columns, note)


def _most_int8_first(point: CurvePoint) -> tuple[float, float]:
    """Of plans with one share, the most accurate first; NaN is the mark of a broken output."""
    damage = point.measures[0].damage
    return -point.int8_mac_fraction, inf if isnan(damage) else damage
