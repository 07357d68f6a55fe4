"""The work of the diagnosis: experiments on evaluation samples, each with one thing changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path

from quantflow.artifacts.diagnosis_record import DiagnosisRecord
from quantflow.artifacts.drift_record import DriftReport
from quantflow.artifacts.journal import Journal
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.ranges_record import Fp16Report, RangesRecord
from quantflow.artifacts.run_directory import JOURNAL
from quantflow.artifacts.sample_set import SampleSet
from quantflow.artifacts.sweep_record import SweepRecord
from quantflow.evaluation.asked import Asked
from quantflow.evaluation.diagnosis import Diagnosed, Diagnosis
from quantflow.evaluation.diagnosis_facts import Facts
from quantflow.evaluation.diagnosis_words import sentence
from quantflow.evaluation.experiments import WORST, Experiments
from quantflow.evaluation.remedies import State, next_step
from quantflow.evaluation.trials import Setup, Trials
from quantflow.evaluation.worst_groups import swept_damages
from quantflow.export.int8_weights import load_int8_weights
from quantflow.graph.bucket import bucket_model
from quantflow.graph.layer_settings import PER_CHANNEL_ONLY, layer_settings
from quantflow.graph.model_io import load_model
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.workers import ALONE
from quantflow.sensitivity.ledger import Ledger
from quantflow.sensitivity.probe import Probe
from quantflow.stages.other_ranges import RangeSource
from quantflow.stages.plan_in_force import plan_in_force
from quantflow.stages.stage import OPTIMIZED, Context
from quantflow.tasks.criteria import Criterion, criteria


def work(context: Context, folder: Path, asked: Asked) -> None:
    """Write `diagnosis.json`."""
    context = replace(context, workers=ALONE)  # the leader works alone
    job = _Job(context, Ledger(Journal(folder / JOURNAL), ALONE), asked)
    found = job.diagnosis.run()
    facts = Facts(job.trials, job.setup, found, job.fp16, asked.missed)
    DiagnosisRecord(
        samples=len(job.trials.probe),
        metric=found.criterion.name,
        finding=found.finding,
        sentence=sentence(facts),
        next_step=next_step(job.state(found), found.called) if found.explained else "",
        within_budget=found.within and asked.missed is None,
        also=tuple(found.called)[1:],
        fp16_share=found.fp16_share,
        experiments=found.experiments,
        groups=found.alternatives.groups[: max(WORST)],
        notes=tuple(job.left_out(found)) if found.explained else (),
    ).write(folder / "diagnosis.json")


@dataclass(frozen=True)
class _Job:
    """What the experiments need of a run, made when it is first needed."""

    context: Context
    ledger: Ledger
    asked: Asked

    @cached_property
    def record(self) -> ModelRecord:
        return ModelRecord.read(self.context.quantized_model / "model.json")

    @cached_property
    def fp16(self) -> Fp16Report:
        return Fp16Report.read(self.context.quantized_ranges / "fp16.json")

    @cached_property
    def plan(self) -> PrecisionPlan:
        return plan_in_force(self.context, self.record)

    @cached_property
    def criteria(self) -> dict[str, Criterion]:
        return criteria(self.context.config, self.context.loaded.base)

    @cached_property
    def setup(self) -> Setup:
        folder = self.context.quantized_ranges
        return Setup(
            plan=self.plan,
            ranges=RangesRecord.read(folder / "ranges.json"),
            granularity=layer_settings(self.record, self.context.config.quantization).granularity,
            weights=load_int8_weights(folder / "weights.safetensors"),
        )

    @cached_property
    def trials(self) -> Trials:
        """The evaluation samples, which nothing was calibrated, searched or verified with."""
        config = self.context.config
        dims = config.target.buckets[0]
        model = bucket_model(load_model(self.context.quantized_model / "model.onnx"), dims)
        evaluation = SampleSet(self.context.folder("10_set") / "evaluation")
        count = min(self.asked.samples, len(evaluation))
        runner = OnnxRuntimeRunner(model, config.runtime)
        self.context.progress("the float model", 0, 1)
        probe = Probe(
            runner.run,
            evaluation.first(count),
            evaluation.ids[:count],
            self.record,
            dims,
            {name: x.metric for name, x in self.criteria.items()},
        )
        runner.close()
        self.context.progress("the float model", 1, 1)
        fp19 = config.target.fp19_dequant
        return Trials(model, self.record, probe, fp19, config.runtime, self.ledger)

    @cached_property
    def sweep(self) -> SweepRecord | None:
        if self.context.run.manifest("30_sweep") is None:
            return None
        return SweepRecord.read(self.context.folder("30_sweep") / "sweep.json")

    @cached_property
    def diagnosis(self) -> Diagnosis:
        source = RangeSource(self.context, self.record, self.setup.ranges, self.ledger)
        return Diagnosis(
            experiments=Experiments(
                self.trials, self.setup, self.fp16.islands, per_tensor=self.has_per_tensor
            ),
            criteria=self.criteria,
            deployment=source.deployment if self.knows_deployment else None,
            estimators=None if self.record.given else source.estimators,
            damages=swept_damages(self.sweep),
            explains=self.asked.explains,
            seed=self.context.config.run.seed,
            progress=self.context.progress,
        )

    @property
    def knows_deployment(self) -> bool:
        """Whether held-out samples are of deployment, and ranges follow from samples at all."""
        return self.context.config.set.profile is None and not self.record.given

    @property
    def has_per_tensor(self) -> bool:
        """Whether the weights of some layer have one scale that need not be one."""
        told = self.setup.granularity
        free = (x for x in self.record.layers if x.weight and x.op_type not in PER_CHANNEL_ONLY)
        return not self.record.given and any(told.get(x.name) == "per-tensor" for x in free)

    def left_out(self, found: Diagnosed) -> Iterator[str]:
        """What was not tried, and why."""
        sets = self.context.config.set
        if found.finding == "fp16":
            yield "What INT8 adds is not told apart from fp16's own loss, so that comes first."
        elif self.record.given:
            yield "The model came quantized: its own ranges and scales hold whatever is configured."
        elif sets.profile is not None:
            yield "A profile holds no samples, so that data were not tried: see `show coverage`."
        elif sets.deployment is None:
            yield "Without [set.deployment], held-out samples are candidates like the set's own."

    def state(self, found: Diagnosed) -> State:
        """What has been done already."""
        lacking = {x.node for x in self.fp16.islands} - self.plan.island_nodes
        return State(
            config=self.context.config,
            optimized=self.context.run.manifest(OPTIMIZED) is not None,
            swept=self.sweep is not None,
            lacks_islands=bool(lacking),
            given=bool(self.record.given),
            groups=[x.group for x in found.alternatives.groups],
            unlike=self.unlike,
            tighter=self.tighter(found),
        )

    @property
    def unlike(self) -> list[str]:
        """What the set fails in though it was matched to deployment."""
        drift = DriftReport.read(self.context.folder("10_set") / "drift.json")
        if drift.selection != "match" or drift.verdict != "fail":
            return []
        return [x.feature for x in drift.features if x.verdict == "fail"]

    def tighter(self, found: Diagnosed) -> float | None:
        """A mean cosine that halves a distance which is within the budget, and not enough."""
        if not found.within or found.criterion.name != "cosine":
            return None
        half = found.experiments[1].measures[0].damage / 2
        return float(1 - Decimal(f"{half:.1e}")) if half > 0 else None
