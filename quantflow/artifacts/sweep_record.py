"""What stage 3 writes beside the plan: scores, the curve, and the policies side by side."""

from __future__ import annotations

from quantflow.artifacts.record import Record
from quantflow.config import Role


class GroupScore(Record):
    """How much one group hurts when it alone is INT8.

    Attributes:
        group, role: which.
        mac_fraction: its share of the layers' multiply-accumulates, 0-1.
        value: the metric over the search samples, their mean but for perplexity.
        damage: how far that is from the float model's value; larger is worse, whichever way the
            metric points. Of perplexity, the logarithm of the ratio of the two.
        low, high: 95% bootstrap interval of the damage.
        tied: whether its interval overlaps that of the next group in the ranking.
    """

    group: str
    role: Role
    mac_fraction: float
    value: float
    damage: float
    low: float
    high: float
    tied: bool


class CurvePoint(Record):
    """One plan that the search tried.

    Attributes:
        fp16_groups: what stays in fp16.
        int8_mac_fraction: share of MACs in INT8, 0-1.
        cosine_mean, cosine_low, cosine_high: fidelity on the search samples with its interval.
        step: what the search was doing: `forward` adds the worst group, `backward` takes one back.
    """

    fp16_groups: tuple[str, ...]
    int8_mac_fraction: float
    cosine_mean: float
    cosine_low: float
    cosine_high: float
    step: str


class PolicyResult(Record):
    """One policy's plan, run as the lowered deploy model on the verification samples.

    Attributes:
        policy: its name.
        fp16_groups: number of groups in fp16.
        int8_mac_fraction: share of MACs in INT8, 0-1.
        boundaries: number of AscendQuant and AscendDequant nodes.
        cosine_mean, cosine_min: fidelity to fp32.
        cosine_low, cosine_high: 95% bootstrap interval of the mean.
        meets_budget: whether the mean reaches `budget.cosine_mean`.
    """

    policy: str
    fp16_groups: int
    int8_mac_fraction: float
    boundaries: int
    cosine_mean: float
    cosine_min: float
    cosine_low: float
    cosine_high: float
    meets_budget: bool


class SweepRecord(Record):
    """`30_sweep/sweep.json`.

    Attributes:
        policy: which policy made the plan.
        metric: what groups were ranked by.
        search_samples, verification_samples: how many; the two do not overlap.
        budget: least mean cosine asked for.
        scores: most harmful first; empty when nothing had to be searched.
        curve: plans in the order they were tried.
        policies: `none` and `attention` with this configuration's pins, and `auto` where it was
            searched.
        verified: whether the plan in `plan.json`, as written, meets the budget on the verification
            samples.
        plan_digest: of `plan.json` as written; a plan edited since is not verified.
        reasons: what stands in the way when it is not verified.
    """

    policy: str
    metric: str
    search_samples: int
    verification_samples: int
    budget: float
    scores: tuple[GroupScore, ...]
    curve: tuple[CurvePoint, ...]
    policies: tuple[PolicyResult, ...]
    verified: bool
    plan_digest: str
    reasons: tuple[str, ...]
