"""An experiment per cause of an accuracy loss, all on the same samples, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from quantflow.artifacts.diagnosis_record import (
    Cause,
    Experiment,
    Finding,
    GroupDamage,
    OtherRanges,
    Share,
)
from quantflow.artifacts.plan import PlannedGroup, PrecisionPlan
from quantflow.artifacts.ranges_record import Island, RangesRecord, TensorRange
from quantflow.evaluation.attribution import Evidence, called, comparable, share_of
from quantflow.evaluation.trials import Found, Setup, Trials
from quantflow.evaluation.worst_groups import measured_damages, worst_first
from quantflow.progress import Progress
from quantflow.sensitivity.measures import measures_of
from quantflow.sensitivity.policy import plan_of
from quantflow.tasks.criteria import Criterion
from quantflow.tasks.metrics import Values

WORST = (1, 2, 4, 8)
"""How many groups are put in fp16, the most harmful ones."""

FP16, INT8 = "nothing in INT8", "INT8 as planned"
ALL_ISLANDS = "nothing in INT8, all islands that fp16 asks for"
DEPLOYMENT = "ranges of deployment"
PER_CHANNEL = "weight scales per channel"
NEAREST = "weights rounded to the nearest"
FLOAT_WEIGHTS, FLOAT_ACTIVATIONS = "weights in float", "activations in float"


@dataclass(frozen=True, slots=True)
class _Change:
    """One thing to change; `groups` says how many of the INT8 groups it puts in fp16."""

    name: str
    cause: Cause
    run: Callable[[], Found]
    groups: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """What the experiments came to.

    Attributes:
        criterion: what the loss is told in.
        within: whether INT8 as planned is within the budget; then nothing else was tried.
        experiments: the references, then by cause.
        fp16_share: share of the loss without any INT8; None within the budget.
        called: the causes that hold, the one to be named first, with what speaks for each.
        groups: the INT8 groups, most harmful first.
        deployment, estimated: the ranges that were tried; None for what was not.
    """

    criterion: Criterion
    within: bool
    experiments: tuple[Experiment, ...]
    fp16_share: Share | None = None
    called: Mapping[Cause, Evidence] = field(default_factory=dict[Cause, Evidence])
    groups: tuple[GroupDamage, ...] = ()
    deployment: OtherRanges | None = None
    estimated: OtherRanges | None = None

    @property
    def finding(self) -> Finding:
        """What the loss comes from."""
        for cause in self.called:
            return cause
        return "nothing" if self.within else "spread"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Runs the experiments.

    Attributes:
        trials, setup: the model, and what is in force.
        criteria: what the budget asks, what has a limit first.
        islands: what fp16 asks for.
        deployment: gives the ranges that deployment samples ask for; None where that is unknown.
        estimators: gives those of the estimators on the calibration set; None where they would
            not be in force.
        damages: of groups alone in INT8, where they are known.
        per_tensor: whether weights with one scale for all channels might have one for each.
        seed: of the bootstrap.
        progress: called as work goes on.
    """

    trials: Trials
    setup: Setup
    criteria: Mapping[str, Criterion]
    islands: tuple[Island, ...]
    deployment: Callable[[], OtherRanges] | None
    estimators: Callable[[], OtherRanges] | None
    damages: Mapping[str, float]
    per_tensor: bool
    seed: int
    progress: Progress

    def run(self) -> Diagnosed:
        """The references; where INT8 misses the budget, an experiment per cause as well."""
        references = dict[str, Found]()
        for done, (name, setup) in enumerate(((FP16, self._fp16()), (INT8, self.setup))):
            self.progress("references", done, 2)
            references[name] = self.trials.deployed(name, setup)
        self.progress("references", 2, 2)
        experiments = tuple(self._measured(x, name) for name, x in references.items())
        measures = experiments[1].measures
        missed = [x.metric for x in measures if not x.meets]
        criterion = self.criteria[missed[0] if missed else measures[0].metric]
        if not missed:
            return Diagnosed(criterion, within=True, experiments=experiments)
        return self._explained(criterion, references, experiments)

    def _explained(
        self,
        criterion: Criterion,
        references: Mapping[str, Found],
        experiments: tuple[Experiment, ...],
    ) -> Diagnosed:
        deployment = self.deployment() if self.deployment else None
        estimated = self.estimators() if self.estimators else None
        groups = self._groups(criterion)
        changes = [*self._changes(deployment, estimated, groups)]
        found = {**references, **self._tried(changes)}
        damages = self._damages(found, criterion)
        weights = self.trials.probe.weights[criterion.name]
        shares = {x.name: self._removed(damages, x.name, weights) for x in changes}
        of_fp16 = share_of(damages[FP16], damages[INT8], weights, seed=self.seed)
        evidence = [Evidence(x.name, x.cause, shares[x.name], x.groups) for x in changes]
        tried = (self._measured(found[x.name], x.name, x.cause, shares[x.name]) for x in changes)
        return Diagnosed(
            criterion,
            within=False,
            experiments=(*experiments, *tried),
            fp16_share=of_fp16,
            called=called([Evidence(FP16, "fp16", of_fp16), *_ordered(evidence)]),
            groups=groups,
            deployment=deployment,
            estimated=estimated,
        )

    def _tried(self, changes: Sequence[_Change]) -> dict[str, Found]:
        found = dict[str, Found]()
        for done, change in enumerate(changes):
            self.progress(f"experiments: {change.name}", done, len(changes))
            found[change.name] = change.run()
        self.progress("experiments", len(changes), len(changes))
        return found

    def _changes(
        self,
        deployment: OtherRanges | None,
        estimated: OtherRanges | None,
        groups: tuple[GroupDamage, ...],
    ) -> Iterator[_Change]:
        trials, setup, plan = self.trials, self.setup, self.setup.plan
        if {x.node for x in self.islands} - plan.island_nodes:
            yield self._deployed(ALL_ISLANDS, "fp16", self._fp16(self.islands))
        if deployment is not None:
            (ranges,) = deployment.by_name.values()
            yield self._with_ranges(DEPLOYMENT, "data", ranges)
        for name, ranges in (estimated.by_name if estimated else {}).items():
            yield self._with_ranges(f"{name} ranges", "ranges", ranges)
        if self.per_tensor:
            yield self._deployed(PER_CHANNEL, "weights", trials.per_channel(setup))
        if setup.weights:
            yield self._deployed(NEAREST, "weights", replace(setup, weights={}))
        yield _Change(
            FLOAT_WEIGHTS,
            "weights",
            lambda: trials.one_side(FLOAT_WEIGHTS, setup, "activations"),
        )
        for count in (x for x in WORST if x < len(groups)):
            name = f"worst {count} groups in fp16" if count > 1 else "worst group in fp16"
            chosen = frozenset(x.group for x in groups[:count])
            fewer = replace(setup, plan=_in_fp16(plan, chosen))
            yield self._deployed(name, "layers", fewer, (count, len(groups)))
        yield _Change(
            FLOAT_ACTIVATIONS,
            "activations",
            lambda: trials.one_side(FLOAT_ACTIVATIONS, setup, "weights"),
        )

    def _deployed(
        self, name: str, cause: Cause, setup: Setup, groups: tuple[int, int] = (0, 0)
    ) -> _Change:
        return _Change(name, cause, lambda: self.trials.deployed(name, setup), groups)

    def _with_ranges(self, name: str, cause: Cause, ranges: tuple[TensorRange, ...]) -> _Change:
        record = RangesRecord(ranges=ranges, nonfinite=())
        return self._deployed(name, cause, self.trials.with_ranges(self.setup, record))

    def _fp16(self, islands: tuple[Island, ...] | None = None) -> Setup:
        """Nothing in INT8, with the plan's islands or others."""
        nothing = {name: PlannedGroup(precision="fp16") for name in self.setup.plan.groups}
        kept = self.setup.plan.islands if islands is None else islands
        return replace(self.setup, plan=plan_of("none", nothing, kept))

    def _groups(self, criterion: Criterion) -> tuple[GroupDamage, ...]:
        """INT8 groups, most harmful first."""
        planned = self.setup.plan.groups
        names = [x.name for x in self.trials.record.groups if planned[x.name].precision == "int8"]
        damages = self.damages
        if not damages and names:
            args = (names, criterion.name, self.progress)
            damages = measured_damages(self.trials, self.setup, *args)
        return worst_first(damages, names)

    def _damages(self, found: Mapping[str, Found], criterion: Criterion) -> dict[str, Values]:
        probe, name = self.trials.probe, criterion.name
        damage = criterion.metric.damage
        damages = {key: damage(x[name], probe.of_float[name]) for key, x in found.items()}
        return comparable(damages, probe.weights[name])

    def _removed(self, damages: Mapping[str, Values], name: str, weights: Values) -> Share:
        """Share of what INT8 adds to fp16 that a change removes."""
        loss = damages[INT8] - damages[FP16]
        return share_of(damages[INT8] - damages[name], loss, weights, seed=self.seed)

    def _measured(
        self, found: Found, name: str, cause: Cause | None = None, removed: Share | None = None
    ) -> Experiment:
        measures = measures_of(self.criteria, found, self.trials.probe, seed=self.seed)
        return Experiment(name=name, cause=cause, measures=measures, removed=removed)


def _ordered(evidence: list[Evidence]) -> list[Evidence]:
    """Of the estimators the best one first; else as they come, what can be acted on first."""
    ranges = [x for x in evidence if x.cause == "ranges" and x.share.value > 0]  # nor NaN
    others = [x for x in evidence if x.cause not in ("ranges", "fp16")]
    return [*others, *sorted(ranges, key=lambda x: -x.share.value)]


def _in_fp16(plan: PrecisionPlan, groups: frozenset[str]) -> PrecisionPlan:
    fp16 = PlannedGroup(precision="fp16", reason="diagnosis")
    changed = {name: fp16 if name in groups else x for name, x in plan.groups.items()}
    return plan.model_copy(update={"groups": changed})
