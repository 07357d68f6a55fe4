"""The experiments of a diagnosis: each changes one thing about the INT8 model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from quantflow.artifacts.diagnosis_record import Cause, GroupDamage, OtherRanges
from quantflow.artifacts.plan import PlannedGroup, PrecisionPlan
from quantflow.artifacts.ranges_record import Island, RangesRecord, TensorRange
from quantflow.evaluation.trials import Found, Setup, Trials
from quantflow.sensitivity.policy import plan_of

WORST = (1, 2, 4, 8)
"""How many groups are put in fp16, the most harmful ones."""

FP16, INT8 = "nothing in INT8", "INT8 as planned"
ALL_ISLANDS = "nothing in INT8, all islands that fp16 asks for"
DEPLOYMENT = "ranges of deployment"
PER_CHANNEL = "weight scales per channel"
NEAREST = "weights rounded to the nearest"
FLOAT_WEIGHTS, FLOAT_ACTIVATIONS = "weights in float", "activations in float"


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is changed.

    Attributes:
        name: what.
        cause: what it is evidence for.
        run: measures the model with it.
        groups: how many groups it puts in fp16, of how many; (0, 0) where it is not about groups.
    """

    name: str
    cause: Cause
    run: Callable[[], Found]
    groups: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Alternatives:
    """What experiments are made of.

    Attributes:
        deployment, estimated: ranges to try; None for those that are not.
        groups: the INT8 groups, most harmful first.
    """

    deployment: OtherRanges | None = None
    estimated: OtherRanges | None = None
    groups: tuple[GroupDamage, ...] = ()


@dataclass(frozen=True, slots=True)
class Experiments:
    """Makes the experiments.

    Attributes:
        trials, setup: the model, and what is in force.
        islands: what fp16 asks for.
        per_tensor: whether weights with one scale for all channels might have one for each.
    """

    trials: Trials
    setup: Setup
    islands: tuple[Island, ...]
    per_tensor: bool

    def of_fp16(self) -> Iterator[Change]:
        """Where the plan leaves out islands, the model with all of them and nothing in INT8."""
        if {x.node for x in self.islands} - self.setup.plan.island_nodes:
            yield self._deployed(ALL_ISLANDS, "fp16", self.fp16(self.islands))

    def of_int8(self, given: Alternatives) -> Iterator[Change]:
        """All others; of those for one cause, what can be acted on comes first."""
        yield from self._of_ranges(given)
        yield from self._of_weights()
        yield from self._of_groups(given.groups)
        yield self._one_side(FLOAT_ACTIVATIONS, "activations")

    def fp16(self, islands: Sequence[Island] | None = None) -> Setup:
        """Nothing in INT8, with the plan's islands or others."""
        nothing = {name: PlannedGroup(precision="fp16") for name in self.setup.plan.groups}
        kept = self.setup.plan.islands if islands is None else islands
        return replace(self.setup, plan=plan_of("none", nothing, kept))

    def _of_ranges(self, given: Alternatives) -> Iterator[Change]:
        for ranges in given.deployment.by_name.values() if given.deployment else ():
            yield self._with_ranges(DEPLOYMENT, "data", ranges)
        for name, ranges in given.estimated.by_name.items() if given.estimated else ():
            yield self._with_ranges(f"{name} ranges", "ranges", ranges)

    def _of_weights(self) -> Iterator[Change]:
        if self.per_tensor:
            yield self._deployed(PER_CHANNEL, "weights", self.trials.per_channel(self.setup))
        if self.setup.weights:
            yield self._deployed(NEAREST, "weights", replace(self.setup, weights={}))
        yield self._one_side(FLOAT_WEIGHTS, "weights")

    def _of_groups(self, groups: Sequence[GroupDamage]) -> Iterator[Change]:
        for count in (x for x in WORST if x < len(groups)):
            name = f"worst {count} groups in fp16" if count > 1 else "worst group in fp16"
            chosen = frozenset(x.group for x in groups[:count])
            setup = replace(self.setup, plan=_in_fp16(self.setup.plan, chosen))
            yield self._deployed(name, "layers", setup, (count, len(groups)))

    def _one_side(self, name: str, cause: Cause) -> Change:
        """The other side alone is quantized."""
        side = "activations" if cause == "weights" else "weights"
        return Change(name, cause, lambda: self.trials.one_side(name, self.setup, side))

    def _with_ranges(self, name: str, cause: Cause, ranges: tuple[TensorRange, ...]) -> Change:
        record = RangesRecord(ranges=ranges, nonfinite=())
        return self._deployed(name, cause, self.trials.with_ranges(self.setup, record))

    def _deployed(
        self, name: str, cause: Cause, setup: Setup, groups: tuple[int, int] = (0, 0)
    ) -> Change:
        return Change(name, cause, lambda: self.trials.deployed(name, setup), groups)


def _in_fp16(plan: PrecisionPlan, groups: frozenset[str]) -> PrecisionPlan:
    fp16 = PlannedGroup(precision="fp16", reason="diagnosis")
    changed = {name: fp16 if name in groups else x for name, x in plan.groups.items()}
    return plan.model_copy(update={"groups": changed})
