"""What stage 3 writes beside the plan: scores, the curve, the policies and sides side by side."""

from __future__ import annotations

from typing import Literal

from quantflow.artifacts.record import Record
from quantflow.config import Role

Side = Literal["fp16", "weights", "activations", "int8"]
"""What is not fp32: nothing but the fp16 rest, only weights INT8, only activations, or both."""


class Effect(Record):
    """What happens to the metric, in its mean over samples.

    Attributes:
        value: of the metric over the samples: the mean, the perplexity, or decibels.
        damage: how much worse; larger is worse, whichever way the metric points.
        low, high: 95% bootstrap interval of the damage over samples.
    """

    value: float
    damage: float
    low: float
    high: float


class GroupScore(Record):
    """How much one group hurts.

    Attributes:
        group, role: which.
        mac_fraction: its share of the layers' multiply-accumulates, 0-1.
        samples: how many it was measured on.
        one_in: it alone in INT8, against the float model.
        one_out: everything in INT8, against everything but it: what it costs among the others.
        weights, activations: damage with only its weights, or only its input, quantized and it
            alone, on the first samples; None where that was not measured.
        rank_low, rank_high: places that it takes in 95% of bootstrap resamples.
        tied: whether which of it and the next in the ranking comes first may be chance.
    """

    group: str
    role: Role
    mac_fraction: float
    samples: int
    one_in: Effect
    one_out: Effect
    weights: float | None = None
    activations: float | None = None
    rank_low: int
    rank_high: int
    tied: bool


class Measure(Record):
    """A model on samples by one metric, with what the budget says of it.

    Attributes:
        metric: its name: `cosine`, or the kind of the task.
        value: over the samples.
        damage: how much worse than the float model, in the mean over samples.
        low, high: 95% bootstrap interval of the damage.
        limit: greatest damage that the budget allows; None where it asks nothing.
    """

    metric: str
    value: float
    damage: float
    low: float
    high: float
    limit: float | None

    @property
    def meets(self) -> bool:
        """Whether the damage is within the limit; NaN never is."""
        return self.limit is None or self.damage <= self.limit

    @property
    def meets_surely(self) -> bool:
        """Whether the whole interval of the damage is within the limit."""
        return self.limit is None or self.high <= self.limit


class CurvePoint(Record):
    """One plan that the search tried.

    Attributes:
        fp16_groups: what stays in fp16.
        int8_mac_fraction: share of MACs in INT8, 0-1.
        cost: estimated time of the layers, 1 with all of them in fp16.
        measures: on the search samples.
        step: what the search was doing: `curve` walks along a ranking, `refine` looks closer,
            `backward` takes groups back to INT8.
    """

    fp16_groups: tuple[str, ...]
    int8_mac_fraction: float
    cost: float
    measures: tuple[Measure, ...]
    step: str


class PolicyResult(Record):
    """One policy's plan, run as the lowered deploy model on the verification samples.

    Attributes:
        policy: its name.
        fp16_groups: number of groups in fp16.
        int8_mac_fraction: share of MACs in INT8, 0-1.
        boundaries: number of AscendQuant and AscendDequant nodes.
        cost: estimated time of the layers, 1 with all of them in fp16.
        measures: what has a limit first; `cosine` is always among them.
        cosine_min: least cosine of a sample.
        meets_budget: whether every measure is within its limit, and the plan within the limits of
            INT8 share and number of fp16 groups.
    """

    policy: str
    fp16_groups: int
    int8_mac_fraction: float
    boundaries: int
    cost: float
    measures: tuple[Measure, ...]
    cosine_min: float
    meets_budget: bool


class SideResult(Record):
    """One side of quantization alone, every group included, on the verification samples.

    Attributes:
        side: which; `fp16` and `int8` are the deploy numerics, `weights` and `activations` have
            float32 for all else.
        measures: as in `PolicyResult`.
    """

    side: Side
    measures: tuple[Measure, ...]


class SweepRecord(Record):
    """`30_sweep/sweep.json`.

    Attributes:
        policy: which policy made the plan.
        metric: what groups were ranked by.
        search_samples, verification_samples: how many; the two do not overlap.
        least_int8_fraction, most_fp16_groups: further limits of the budget, or None.
        scores: most harmful first, one-in; empty when nothing had to be searched.
        sides_samples: how many the sides of single groups were measured on.
        rank_stability: mean Spearman correlation of the ranking with those of bootstrap resamples;
            None without scores, or where it is not defined.
        in_out_correlation: Spearman correlation of the one-in with the one-out damages.
        curve: plans in the order they were tried.
        policies: `none` and `attention` with this configuration's pins, and `auto` where it was
            searched.
        sides: everything in INT8, side by side with each side alone; empty without a search.
        verified: whether the plan in `plan.json`, as written, meets the budget on the verification
            samples.
        plan_digest: of `plan.json` as written; a plan edited since is not verified.
        reasons: what stands in the way when it is not verified.
    """

    policy: str
    metric: str
    search_samples: int
    verification_samples: int
    least_int8_fraction: float | None = None
    most_fp16_groups: int | None = None
    scores: tuple[GroupScore, ...]
    sides_samples: int = 0
    rank_stability: float | None = None
    in_out_correlation: float | None = None
    curve: tuple[CurvePoint, ...]
    policies: tuple[PolicyResult, ...]
    sides: tuple[SideResult, ...] = ()
    verified: bool
    plan_digest: str
    reasons: tuple[str, ...]
