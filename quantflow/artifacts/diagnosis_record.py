"""What the accuracy loss of the INT8 model comes from (`46_diagnosis/diagnosis.json`)."""

from __future__ import annotations

from typing import Literal

from quantflow.artifacts.ranges_record import TensorRange
from quantflow.artifacts.record import Record
from quantflow.artifacts.sweep_record import Measure

Cause = Literal["fp16", "data", "ranges", "weights", "layers", "activations"]
"""In the order in which they are called when several hold."""

Finding = Cause | Literal["nothing", "spread"]
"""A cause, `nothing` where the loss was not to be explained, or `spread` where no cause does."""


class Share(Record):
    """A share of the loss, 1 for all of it, with its 95% bootstrap interval over samples.

    NaN where there is no loss to speak of; the ends are NaN where the loss itself may be chance.
    """

    value: float
    low: float
    high: float


class Experiment(Record):
    """The model with one thing changed, on the samples of all experiments.

    Attributes:
        name: what is changed.
        cause: what it is evidence for; None for the references `fp16` and `int8`.
        measures: as the budget asks, what has a limit first; `cosine` is always among them.
        removed: share of the loss of INT8 that the change removes; None for a reference.
    """

    name: str
    cause: Cause | None
    measures: tuple[Measure, ...]
    removed: Share | None = None


class OtherRanges(Record):
    """Ranges that might be in force instead.

    Attributes:
        by_name: of every quantized tensor, by what gave them.
        clipped: share of the values of each tensor, 0-1, that the ranges in force clip on the
            samples that these are of.
    """

    by_name: dict[str, tuple[TensorRange, ...]]
    clipped: dict[str, float]


class GroupDamage(Record):
    """How much a group hurts when it alone is INT8: mean damage over some of the samples."""

    group: str
    damage: float


class DiagnosisRecord(Record):
    """`46_diagnosis/diagnosis.json`.

    Attributes:
        samples: how many evaluation samples the experiments ran on.
        metric: the criterion that the loss is told in.
        finding: what the loss comes from.
        sentence: the same in words, with figures and names.
        next_step: what to do about it: a command, at times after a few words; empty where there is
            nothing to explain.
        within_budget: whether the budget is met, as far as it is measured here or a current
            comparison has found; then the loss is explained only where that was asked for.
        also: further causes that hold, which come after the finding.
        fp16_share: share of the loss that is there without any INT8.
        experiments: the references, then by cause.
        groups: those that were put in fp16, most harmful first.
        notes: what was left out, and why.
    """

    samples: int
    metric: str
    finding: Finding
    sentence: str
    next_step: str
    within_budget: bool = False
    also: tuple[Cause, ...] = ()
    fp16_share: Share | None = None
    experiments: tuple[Experiment, ...]
    groups: tuple[GroupDamage, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def misses_budget(self) -> bool:
        """Whether there was a loss beyond the budget to explain."""
        return not self.within_budget and self.finding != "nothing"
