"""An experiment per cause of an accuracy loss, all on the same samples, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from quantflow.artifacts.diagnosis_record import (
    Cause,
    Experiment,
    Finding,
    GroupDamage,
    OtherRanges,
    Share,
)
from quantflow.evaluation.attribution import Evidence, called, comparable, holds, share_of
from quantflow.evaluation.experiments import FP16, INT8, Alternatives, Change, Experiments
from quantflow.evaluation.trials import Found
from quantflow.evaluation.worst_groups import measured_damages, worst_first
from quantflow.progress import Progress
from quantflow.sensitivity.measures import measures_of
from quantflow.tasks.criteria import Criterion
from quantflow.tasks.metrics import Values


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """What the experiments came to.

    Attributes:
        criterion: what the loss is told in.
        within: whether INT8 as planned is within the budget on these samples.
        experiments: the references, then by cause.
        fp16_share: share of the loss without any INT8; None where nothing else was tried.
        called: the causes that hold, the one to be named first, with what speaks for each.
        alternatives: what was tried.
    """

    criterion: Criterion
    within: bool
    experiments: tuple[Experiment, ...]
    fp16_share: Share | None = None
    called: Mapping[Cause, Evidence] = field(default_factory=dict[Cause, Evidence])
    alternatives: Alternatives = field(default_factory=Alternatives)

    @property
    def explained(self) -> bool:
        """Whether more than the references was tried."""
        return self.fp16_share is not None

    @property
    def finding(self) -> Finding:
        """What the loss comes from."""
        for cause in self.called:
            return cause
        return "spread" if self.explained else "nothing"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Runs the experiments.

    Attributes:
        experiments: of the model.
        criteria: what the budget asks, what has a limit first.
        deployment: gives the ranges that deployment samples ask for; None where that is unknown.
        estimators: gives those of the estimators on the calibration set; None where they would
            not be in force.
        damages: of groups alone in INT8, where they are known.
        explains: whether a loss within the budget is explained as well.
        seed: of the bootstrap.
        progress: called as work goes on.
    """

    experiments: Experiments
    criteria: Mapping[str, Criterion]
    deployment: Callable[[], OtherRanges] | None
    estimators: Callable[[], OtherRanges] | None
    damages: Mapping[str, float]
    explains: bool
    seed: int
    progress: Progress

    def run(self) -> Diagnosed:
        """The references; where there is something to explain, an experiment per cause as well."""
        references = self._references()
        experiments = tuple(self._measured(x, name) for name, x in references.items())
        measures = experiments[1].measures
        missed = [x.metric for x in measures if not x.meets]
        criterion = self.criteria[missed[0] if missed else measures[0].metric]
        if not missed and not self.explains:
            return Diagnosed(criterion, within=True, experiments=experiments)
        found = self._explained(criterion, references, experiments)
        return replace(found, within=not missed)

    def _references(self) -> dict[str, Found]:
        setups = {FP16: self.experiments.fp16(), INT8: self.experiments.setup}
        found = dict[str, Found]()
        for name, setup in setups.items():
            self.progress("references", len(found), len(setups))
            found[name] = self.experiments.trials.deployed(name, setup)
        self.progress("references", len(found), len(setups))
        return found

    def _explained(
        self,
        criterion: Criterion,
        references: Mapping[str, Found],
        measured: tuple[Experiment, ...],
    ) -> Diagnosed:
        alternatives, changes = Alternatives(), [*self.experiments.of_fp16()]
        of_fp16 = self._share_of_fp16(criterion, references)
        if not holds(of_fp16):  # else what INT8 adds is not told apart from it
            alternatives = self._alternatives(criterion)
            changes += self.experiments.of_int8(alternatives)
        found = {**references, **self._tried(changes)}
        damages = self._damages(found, criterion)
        shares = {x.name: self._removed(damages, x.name, criterion) for x in changes}
        evidence = [Evidence(x.name, x.cause, shares[x.name], x.groups) for x in changes]
        tried = (self._measured(found[x.name], x.name, x.cause, shares[x.name]) for x in changes)
        return Diagnosed(
            criterion,
            within=False,
            experiments=(*measured, *tried),
            fp16_share=of_fp16,
            called=called([Evidence(FP16, "fp16", of_fp16), *_ordered(evidence)]),
            alternatives=alternatives,
        )

    def _tried(self, changes: Sequence[Change]) -> dict[str, Found]:
        found = dict[str, Found]()
        for done, change in enumerate(changes):
            self.progress(f"experiments: {change.name}", done, len(changes))
            found[change.name] = change.run()
        self.progress("experiments", len(changes), len(changes))
        return found

    def _alternatives(self, criterion: Criterion) -> Alternatives:
        return Alternatives(
            deployment=self.deployment() if self.deployment else None,
            estimated=self.estimators() if self.estimators else None,
            groups=self._groups(criterion),
        )

    def _groups(self, criterion: Criterion) -> tuple[GroupDamage, ...]:
        """INT8 groups, most harmful first."""
        trials, setup = self.experiments.trials, self.experiments.setup
        groups = trials.record.groups
        names = [x.name for x in groups if setup.plan.groups[x.name].precision == "int8"]
        damages = self.damages
        if not damages and names:
            damages = measured_damages(trials, setup, names, criterion.name, self.progress)
        return worst_first(damages, names)

    def _share_of_fp16(self, criterion: Criterion, references: Mapping[str, Found]) -> Share:
        damages = self._damages(references, criterion)
        return share_of(damages[FP16], damages[INT8], self._weights(criterion), seed=self.seed)

    def _removed(self, damages: Mapping[str, Values], name: str, criterion: Criterion) -> Share:
        """Share of what INT8 adds to fp16 that a change removes."""
        left, loss = damages[INT8] - damages[name], damages[INT8] - damages[FP16]
        return share_of(left, loss, self._weights(criterion), seed=self.seed)

    def _damages(self, found: Mapping[str, Found], criterion: Criterion) -> dict[str, Values]:
        of_float = self.experiments.trials.probe.of_float[criterion.name]
        damages = {
            name: criterion.metric.damage(x[criterion.name], of_float) for name, x in found.items()
        }
        return comparable(damages, self._weights(criterion))

    def _weights(self, criterion: Criterion) -> Values:
        return self.experiments.trials.probe.weights[criterion.name]

    def _measured(
        self, found: Found, name: str, cause: Cause | None = None, removed: Share | None = None
    ) -> Experiment:
        probe = self.experiments.trials.probe
        measures = measures_of(self.criteria, found, probe, seed=self.seed)
        return Experiment(
            name=name,
            cause=cause,
            measures=measures,
            removed=None if cause == "fp16" else removed,
        )


def _ordered(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Of the estimators the best one first; else as they come."""
    ranges = [x for x in evidence if x.cause == "ranges" and x.share.value > 0]  # nor NaN
    others = [x for x in evidence if x.cause not in ("ranges", "fp16")]
    return [*others, *sorted(ranges, key=lambda x: -x.share.value)]
