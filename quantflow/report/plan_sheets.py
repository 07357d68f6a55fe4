"""Tables of stage 3: how much each group hurts, what plans come to, and the plan in force."""

from __future__ import annotations

from collections.abc import Sequence

from quantflow.artifacts.plan import PlannedGroup, PrecisionPlan
from quantflow.artifacts.sweep_record import CurvePoint, GroupScore, SweepRecord
from quantflow.report.sheet import Sheet, cosine_text, interval_text, number_text, share_text

_FP16_REASONS = ("sensitivity ", "policy ")
"""How reasons begin that stage 3 gives for fp16 alone."""


def plan_sheet(plan: PrecisionPlan, *, edited: bool = False) -> Sheet:
    """What is not INT8 and why: groups, then nodes; last, how many groups are INT8."""
    told = {name: group for name, group in plan.groups.items() if group.precision == "fp16"}
    told |= {name: group for name, group in plan.groups.items() if group.reason}
    ordered = sorted(told.items(), key=lambda item: item[1].precision)
    rows = [(name, group.precision, _why(group, edited=edited)) for name, group in ordered]
    rows += [(x.node, "fp32", f"{x.tensor} overflows fp16") for x in plan.islands]
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


def _ranks(scores: Sequence[GroupScore]) -> list[str]:
    """Places from 1; groups whose order may be chance share one: ``1``, ``2=``, ``2=``, ``4``."""
    ranks = list[str]()
    for place, score in enumerate(scores, 1):
        tied_before = place > 1 and scores[place - 2].tied
        shared = tied_before or (score.tied and place < len(scores))
        ranks.append(ranks[-1] if tied_before else f"{place}{'=' if shared else ''}")
    return ranks


def scores_sheet(sweep: SweepRecord) -> Sheet:
    """Groups from most to least harmful."""
    of_text = sweep.metric == "perplexity"
    rows = [
        (
            rank,
            x.group,
            x.role,
            share_text(x.mac_fraction),
            *([number_text(x.value)] if of_text else []),
            number_text(x.damage),
            f"{number_text(x.low)} to {number_text(x.high)}",
        )
        for rank, x in zip(_ranks(sweep.scores), sweep.scores, strict=True)
    ]
    value = ("perplexity",) if of_text else ()
    head = ("rank", "group", "role", "MACs", *value, "damage", "95% interval")
    what = (
        "how much the logarithm of the perplexity rises"
        if of_text
        else f"how far the {sweep.metric} of the outputs is from a perfect one"
    )
    note = (
        f"Damage: {what} when this group alone is INT8, on {sweep.search_samples} calibration "
        "samples. Groups that share a rank (=) are tied: the interval of each overlaps that of the "
        "next; attention comes first."
    )
    if not rows:
        note = f"Policy {sweep.policy} needs no scores; policy auto does."
    return Sheet("Sensitivity", head, "rllrr" + "r" * (1 + of_text), tuple(rows), note)


def policies_sheet(sweep: SweepRecord, *, edited: bool = False) -> Sheet:
    """The policies' plans side by side; the one in force is marked."""
    in_force = "" if edited else sweep.policy
    rows = [
        (
            f"{x.policy} *" if x.policy == in_force else x.policy,
            cosine_text(x.cosine_mean),
            interval_text(x.cosine_low, x.cosine_high),
            cosine_text(x.cosine_min),
            share_text(x.int8_mac_fraction),
            str(x.fp16_groups),
            str(x.boundaries),
            "yes" if x.meets_budget else "no",
        )
        for x in sweep.policies
    ]
    head = (
        *("policy", "cosine mean", "95% interval", "cosine min", "INT8 MACs", "fp16 groups"),
        *("boundaries", "meets budget"),
    )
    note = (
        f"Lowered deploy models on {sweep.verification_samples} held-out samples; the budget is a "
        f"mean cosine of {sweep.budget}. "
    )
    note += "The plan in force was edited and is none of these." if edited else "* is in force."
    return Sheet("Policies", head, "lrrrrrrl", tuple(rows), note)


def curve_sheet(sweep: SweepRecord, plan: PrecisionPlan | None) -> Sheet:
    """Accuracy against INT8 share, the most INT8 first; the plan in force is marked."""
    in_force = plan.fp16_groups if plan is not None else None
    points = sorted(sweep.curve, key=lambda x: (-x.int8_mac_fraction, -x.cosine_mean))
    rows = [
        (
            share_text(x.int8_mac_fraction),
            str(len(x.fp16_groups)),
            cosine_text(x.cosine_mean),
            interval_text(x.cosine_low, x.cosine_high),
            f"{x.step} *" if list(x.fp16_groups) == in_force else x.step,
        )
        for x in points
    ]
    head = ("INT8 MACs", "fp16 groups", "cosine mean", "95% interval", "search")
    note = (
        f"On the {sweep.search_samples} calibration samples of the search; the budget is a mean "
        f"cosine of {sweep.budget}. * is in force."
    )
    if not rows:
        note = f"Policy {sweep.policy} searches nothing; policy auto does."
    return Sheet("Plans tried", head, "rrrrl", tuple(rows), note)


def best_points(sweep: SweepRecord) -> list[CurvePoint]:
    """The most accurate plan tried of every INT8 share, the largest share first."""
    best = dict[float, CurvePoint]()
    for point in sorted(sweep.curve, key=lambda x: x.cosine_mean):
        if point.cosine_mean == point.cosine_mean:  # NaN is the mark of a broken output
            best[point.int8_mac_fraction] = point
    return [best[share] for share in sorted(best, reverse=True)]
