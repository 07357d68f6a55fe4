"""The work of stage 3: which groups stay in fp16, found by measurement and verified as a whole.

All workers do it side by side and come to the same result; the leader alone writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from quantflow.artifacts.coverage_record import CoverageReport
from quantflow.artifacts.digest import file_digest
from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.journal import Journal
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PlannedGroup, PrecisionPlan
from quantflow.artifacts.ranges_record import Fp16Report, Island, RangesRecord
from quantflow.artifacts.run_directory import JOURNAL
from quantflow.artifacts.sample_set import SampleSet
from quantflow.artifacts.sweep_record import PolicyResult, SweepRecord
from quantflow.config import RuntimeConfig
from quantflow.export.int8_weights import load_int8_weights
from quantflow.graph.bucket import bucket_model
from quantflow.graph.model_io import load_model
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.workers import shared_machine
from quantflow.sensitivity.assess import Assessed, Assessment
from quantflow.sensitivity.cost import cost_model
from quantflow.sensitivity.ledger import Ledger
from quantflow.sensitivity.obstacles import missed
from quantflow.sensitivity.policy import plan_of, policy_attention, policy_none, resolve_pins
from quantflow.sensitivity.probe import Probe
from quantflow.sensitivity.search import Limits
from quantflow.sensitivity.segmented_model import SegmentedModel
from quantflow.sensitivity.sweep import Found, Sweep
from quantflow.sensitivity.verification import Verifier
from quantflow.stages.stage import Context
from quantflow.tasks.criteria import Criterion, criteria
from quantflow.tasks.metrics import METRICS, Metric


@dataclass(frozen=True, slots=True)
class Swept:
    """What all workers found together.

    Attributes:
        plans: of every policy, by name.
        results: the plans on the verification samples.
        assessed: scores of the groups; None where nothing was searched.
        found: the search; None where there was none.
        samples: how many the search and the verification had.
    """

    plans: dict[str, PrecisionPlan]
    results: dict[str, PolicyResult]
    assessed: Assessed | None
    found: Found | None
    samples: tuple[int, int]


def work(context: Context, folder: Path) -> None:
    """Write `plan.json`, which may be edited, and `sweep.json`."""
    config = context.config
    swept = sweep(context, Journal(folder / JOURNAL))
    plan, result = swept.plans[config.plan.policy], swept.results[config.plan.policy]
    plan.write(folder / "plan.json")
    assessed, found = swept.assessed, swept.found
    SweepRecord(
        policy=plan.policy,
        metric=config.plan.metric,
        search_samples=swept.samples[0],
        verification_samples=swept.samples[1],
        least_int8_fraction=config.budget.int8_mac_fraction,
        most_fp16_groups=config.budget.fp16_groups,
        scores=assessed.scores if assessed else (),
        sides_samples=assessed.sides_samples if assessed else 0,
        rank_stability=assessed.stability if assessed else None,
        in_out_correlation=assessed.in_out_correlation if assessed else None,
        curve=found.curve if found else (),
        policies=tuple(swept.results.values()),
        sides=found.sides if found else (),
        verified=result.meets_budget,
        plan_digest=file_digest(folder / "plan.json"),
        reasons=found.reasons if found else _reasons(context, result),
    ).write(folder / "sweep.json")


def assist(context: Context) -> None:
    """Do a worker's share; what comes out is the leader's to write."""
    sweep(context, None)


def sweep(context: Context, journal: Journal | None) -> Swept:
    """Score, search and verify, shared out to all workers; every one gets the same.

    Args:
        context: of this worker.
        journal: of the leader, where what is measured is noted, so that a kill loses none of it.
    """
    config = context.config
    context.workers.connect(config.runtime.provider)
    parts = Parts(context, Ledger(journal, context.workers))
    record, islands = parts.record, parts.islands
    pinned = resolve_pins(record, config.plan.pins)
    policies = {"none": policy_none(record, pinned), "attention": policy_attention(record, pinned)}
    plans = {name: plan_of(name, groups, islands) for name, groups in policies.items()}
    assessed: Assessed | None = None
    found: Found | None = None
    if config.plan.policy == "auto":
        assessed = parts.assessment().run()
        found = parts.search(pinned).run(assessed)
        plans["auto"] = found.plan
    results = dict[str, PolicyResult]()
    for done, (name, plan) in enumerate(plans.items()):
        context.progress("policies side by side", done, len(plans))
        results[name] = parts.verifier.run(plan)
    context.progress("policies side by side", len(plans), len(plans))
    samples = len(parts.probe) if found else 0, len(parts.verifier.probe)
    return Swept(plans, results, assessed, found, samples)


@dataclass(frozen=True)
class Parts:
    """What a sweep is made of, made when it is first needed."""

    context: Context
    ledger: Ledger

    @cached_property
    def record(self) -> ModelRecord:
        return ModelRecord.read(self.context.quantized_model / "model.json")

    @cached_property
    def islands(self) -> tuple[Island, ...]:
        return Fp16Report.read(self.context.quantized_ranges / "fp16.json").islands

    @cached_property
    def criteria(self) -> dict[str, Criterion]:
        return criteria(self.context.config, self.context.loaded.base)

    @cached_property
    def runtime(self) -> RuntimeConfig:
        return shared_machine(self.context.config.runtime, self.context.workers.place)

    @cached_property
    def metric(self) -> Metric:
        """What groups are ranked by."""
        name = self.context.config.plan.metric
        return self.criteria[name].metric if name in self.criteria else METRICS[name]

    @cached_property
    def verifier(self) -> Verifier:
        """Plans on the held-out samples."""
        config, folder = self.context.config, self.context.quantized_ranges
        dims = config.target.buckets[0]
        model = bucket_model(load_model(self.context.quantized_model / "model.onnx"), dims)
        runner = OnnxRuntimeRunner(model, self.runtime)
        samples = SampleSet(self.context.folder("10_set") / "heldout")
        metrics = {name: x.metric for name, x in self.criteria.items()}
        probe = Probe(
            runner.run, samples, samples.ids, self.record, dims, metrics, self.context.workers
        )
        runner.close()
        budget = config.budget
        return Verifier(
            model=model,
            record=self.record,
            ranges=RangesRecord.read(folder / "ranges.json"),
            probe=probe,
            criteria=self.criteria,
            cost=cost_model(model, self.record, config.plan.boundary_macs),
            limits=Limits(budget.int8_mac_fraction or 0.0, budget.fp16_groups),
            config=config,
            runtime=self.runtime,
            ledger=self.ledger,
            weights=load_int8_weights(folder / "weights.safetensors"),
        )

    @cached_property
    def factors(self) -> tuple[LayerFactors, ...]:
        """Of every layer; whatever is pinned, any group may be INT8 in the search."""
        unpinned = plan_of("none", policy_none(self.record, {}), self.islands)
        return self.verifier.factors(unpinned)

    @cached_property
    def model(self) -> SegmentedModel:
        """The bucket in segments."""
        return SegmentedModel(
            self.verifier.model,
            self.record,
            self.factors,
            fp19=self.context.config.target.fp19_dequant,
            runtime=self.runtime,
            weights=self.verifier.weights,
        )

    @cached_property
    def probe(self) -> Probe:
        """The calibration samples that the search runs on."""
        config = self.context.config
        samples = SampleSet(self.context.folder("10_set") / "calibration")
        count = min(config.plan.samples, len(samples))
        asked = {name: x.metric for name, x in self.criteria.items() if x.limit is not None}
        return Probe(
            lambda feeds: self.model.run(feeds, frozenset()),
            samples.first(count),
            samples.ids[:count],
            self.record,
            config.target.buckets[0],
            {config.plan.metric: self.metric, **asked},
            self.context.workers,
        )

    def assessment(self) -> Assessment:
        """Scores of all groups."""
        config = self.context.config
        return Assessment(
            model=self.model,
            probe=self.probe,
            record=self.record,
            metric=config.plan.metric,
            halving=config.plan.halving,
            seed=config.run.seed,
            ledger=self.ledger,
            progress=self.context.progress,
        )

    def search(self, pinned: Mapping[str, PlannedGroup]) -> Sweep:
        """The search for a plan."""
        coverage = CoverageReport.read(self.context.folder("20_ranges") / "coverage.json")
        return Sweep(
            model=self.model,
            probe=self.probe,
            verifier=self.verifier,
            pinned=pinned,
            islands=self.islands,
            coverage=coverage.verdict,
            ledger=self.ledger,
            progress=self.context.progress,
        )


def _reasons(context: Context, result: PolicyResult) -> tuple[str, ...]:
    if result.meets_budget:
        return ()
    asked = criteria(context.config, context.loaded.base)
    lacking = missed(result.measures, asked) or "the limits of INT8 share or fp16 groups"
    return (
        f"policy {result.policy} misses the budget: {lacking}; policy auto searches for a plan "
        "that meets it",
    )
