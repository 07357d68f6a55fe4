"""fp32, fp16 and int8 side by side, and the summary of a run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from quantflow.artifacts.record import Record, Verdict
from quantflow.artifacts.sweep_record import Measure

Precision = Literal["fp32", "fp16", "fp16_plain", "int8"]


class Fidelity(Record):
    """How close the outputs are to fp32 on the evaluation samples.

    Attributes:
        cosine_mean, cosine_min: over samples, of all outputs of a sample as one vector.
        cosine_low, cosine_high: 95% bootstrap interval of the mean.
        max_abs_error: largest difference of any output element.
        worst_samples: ids, least cosine first, at most five.
    """

    cosine_mean: float
    cosine_min: float
    cosine_low: float
    cosine_high: float
    max_abs_error: float
    worst_samples: tuple[str, ...]


class TaskScore(Record):
    """A task's metric with its 95% bootstrap interval."""

    value: float
    low: float
    high: float


class PairedScore(Record):
    """How much worse one precision is than another in the task, on the same samples.

    Attributes:
        metric: the kind of the task.
        model, baseline: what is compared with what.
        samples: how many samples, queries or documents both were given.
        damage: by how much the model's main figure is worse, negative where it is better: of
            `perplexity` the logarithm of the ratio, of all others the difference.
        low, high: 95% interval of the damage: Tango's score interval for right or wrong answers,
            a paired bootstrap for all else.
        lost, gained: answers that the baseline alone, and the model alone, has right; None where
            values are no answers.
        p_value: McNemar's exact test of these, two-sided; None likewise.
        asked_drop: the damage that `samples_needed` is for: the budget's, or else what is usual for
            the kind; None where there is neither.
        samples_needed: samples like these on which a test at 5% sees that damage in 4 of 5 cases;
            None where that cannot be told.
        detectable_drop: the smallest damage that is seen so on the present samples; NaN where no
            sample differs, infinite where they show none.
    """

    metric: str
    model: Precision
    baseline: Precision
    samples: int
    damage: float
    low: float
    high: float
    lost: int | None = None
    gained: int | None = None
    p_value: float | None = None
    asked_drop: float | None = None
    samples_needed: int | None = None
    detectable_drop: float


class LayerError(Record):
    """Where error arises: one layer's output in the int8 model against fp32.

    Attributes:
        layer, group: names.
        sqnr_db: of the layer's output, padding excluded, all errors from the input on included.
        own_sqnr_db: with the float input, so that only this layer's quantization counts.
        sample_sqnr_db: `sqnr_db` of every sample alone, in the order of `Comparison.layer_samples`;
            NaN where the tensor does not keep the samples of a batch apart, or is zero.
    """

    layer: str
    group: str
    sqnr_db: float
    own_sqnr_db: float
    sample_sqnr_db: tuple[float, ...] = ()


class Comparison(Record):
    """`45_compare/comparison.json`.

    Attributes:
        bucket: the bucket that was run.
        samples: number of evaluation samples.
        fidelity: of `fp16` (emulated, with the plan's islands), `fp16_plain` (without them, only
            where there are islands), `int8` (the lowered deploy file) and `qdq` (its twin).
        fidelity_gap: |int8 - qdq| of cosine_mean.
        flip_noise: |difference| of cosine_mean between the QDQ twin run with and without graph
            optimizations: what rounding flips alone do.
        measures: what the budget may be asked of, by metric and precision; the interval is that of
            the difference to fp32.
        task: metric by precision, `fp16_plain` only where there are islands; empty without a task.
        task_metric: its name, that of the function for a user's own, or empty.
        task_details: further figures of the task by name and precision.
        paired: int8 against fp16 and fp32, and fp16 against fp32, in the task.
        layers: in graph order.
        layer_samples: ids of the evaluation samples that `layers` were measured on.
        verdict: fail when int8 misses the budget or a value is not finite.
        reasons: one sentence for every gate that did not pass.
    """

    bucket: str
    samples: int
    fidelity: dict[str, Fidelity]
    fidelity_gap: float
    flip_noise: float
    measures: dict[str, dict[Precision, Measure]] = Field(default_factory=dict)
    task: dict[Precision, TaskScore]
    task_metric: str
    task_details: dict[str, dict[Precision, TaskScore]] = Field(default_factory=dict)
    paired: tuple[PairedScore, ...] = ()
    layers: tuple[LayerError, ...]
    layer_samples: tuple[str, ...] = ()
    verdict: Verdict
    reasons: tuple[str, ...]


class SummaryFidelity(Record):
    """Mean and minimum cosine."""

    cosine_mean: float
    cosine_min: float


class SummaryDeploy(Record):
    """The deploy model in short."""

    op_types: dict[str, int]
    parity_cosine: float
    fidelity_gap: float | None = None


class SummaryOm(Record):
    """The conversion in short."""

    status: str


class SummaryGate(Record):
    """A gate in short."""

    verdict: Verdict


class SummaryPlan(Record):
    """The plan in force in short.

    Attributes:
        policy: what made it.
        verified: whether this very plan met the budget when stage 3 ran it; false for a plan that
            was edited since, and for the default one that holds before stage 3 has run.
    """

    policy: str
    verified: bool


class Summary(Record):
    """`summary.json`, the one file for other programs to read.

    What is of a stage that has not run is None or empty.

    Attributes:
        verdict: the worst of the gates so far.
        reasons: one sentence for everything that did not pass.
        fidelity: of the outputs to fp32.
        int8_mac_fraction: share of the layers' multiply-accumulates that run in INT8, 0-1.
        fp16_groups, fp32_islands: names of what is not INT8.
        task: metric by precision; empty without a task.
        deploy, om: the file for atc, and what became of it.
        drift: does the calibration set look like deployment?
        coverage: does deployment stay inside the calibrated ranges?
        plan: which layers are INT8.
        notes: what a person should know of the model, such as what the figures do not cover.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    fidelity: dict[Literal["fp16", "int8"], SummaryFidelity]
    int8_mac_fraction: float | None = None
    fp16_groups: tuple[str, ...] = ()
    fp32_islands: tuple[str, ...] = ()
    task: dict[Precision, TaskScore]
    deploy: SummaryDeploy | None = None
    om: SummaryOm | None = None
    drift: SummaryGate | None = None
    coverage: SummaryGate | None = None
    plan: SummaryPlan | None = None
    notes: tuple[str, ...] = ()
