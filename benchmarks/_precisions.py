"""One model in every precision, by every estimator and policy, and by peers: the same samples."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import onnx_ir as ir
from _harness import Figure
from _peers import PEERS, Feeds, FileRunner, quantize
from _recovery import Job, context_of, overrides_of
from pydantic import TypeAdapter

from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.ranges_record import ClippingReport, RangesRecord
from quantflow.artifacts.sample_set import SampleSet
from quantflow.artifacts.sweep_record import Measure
from quantflow.config import PinConfig
from quantflow.evaluation.own_records import judge_records
from quantflow.export.deploy import deploy_model
from quantflow.export.int8_fraction import int8_mac_fraction
from quantflow.export.lowering import lower
from quantflow.graph.model_io import save_model
from quantflow.runtime.bucket_run import bucket_batches
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.workers import ALONE
from quantflow.sensitivity.ledger import Ledger
from quantflow.sensitivity.measures import measures_of
from quantflow.sensitivity.policy import plan_of, policy_attention, policy_none, resolve_pins
from quantflow.sensitivity.verification import Verifier
from quantflow.stages.comparing_task import task_records
from quantflow.stages.pipeline import run_stage
from quantflow.stages.stage import Context
from quantflow.stages.stage_0_model import STAGE as MODEL
from quantflow.stages.stage_1_set import STAGE as SET
from quantflow.stages.stage_3_sweep import STAGE as SWEEP
from quantflow.stages.stage_25_optimize import STAGE as OPTIMIZE
from quantflow.stages.work_3_sweep import Parts

ESTIMATORS = ("minmax", "percentile", "kl", "mse")
"""Beside `auto`, which is the range in force."""

PASSES = ("shift", "smoothing", "rounding", "bias_correction")


Score = tuple[float, float, float]
"""A figure and the ends of its 95% interval."""


@dataclass(frozen=True, slots=True)
class Row:
    """One way to run a model.

    Attributes:
        model, way: names.
        int8_mac_fraction: share of MACs of layers with constant weights, 0-1; None where a peer
            chose it.
        metric: what the budget asks of first.
        value: of the metric on held-out samples.
        damage, low, high: mean distance from fp32 and its 95% interval over samples, paired.
        cosine_mean, cosine_min: of the outputs to fp32.
        tasks: the figures of tasks with records of their own, and their ends, by kind.
    """

    model: str
    way: str
    int8_mac_fraction: float | None
    metric: str
    value: float
    damage: float
    low: float
    high: float
    cosine_mean: float
    cosine_min: float
    tasks: Mapping[str, Score] = field(default_factory=dict[str, Score])


def read_rows(path: Path) -> list[Row]:
    """Rows that were kept."""
    return TypeAdapter(list[Row]).validate_json(path.read_bytes())


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Keep rows."""
    write_atomically(path, TypeAdapter(list[Row]).dump_json(list(rows), indent=1))


def table_ways(name: str, job: Job, directory: Path) -> dict[str, Callable[[str], Row | None]]:
    """All ways to run one model whose ranges are there, in the order to go by.

    Args:
        name: of the model.
        job: how it is quantized.
        directory: of the runs.

    Returns:
        what makes the row of a way, given its name; None comes of a peer that failed.
    """
    passes_off = [f"optimize.{each}=false" for each in PASSES]

    @cache
    def tasks() -> list[Context]:
        return task_contexts(job, directory)

    def bench(context: Context) -> Bench:
        run_stage(context, OPTIMIZE)
        return Bench.of(name, context, [context, *tasks()])

    @cache
    def plain() -> Bench:
        return bench(context_of(job, directory, passes_off))

    @cache
    def optimized() -> Bench:
        return bench(context_of(job, directory))

    def estimated(estimator: str, way: str) -> Row:
        return plain().with_ranges(plain().candidates(estimator)).by_policy(way, "none")

    def swept(of: Callable[[], Bench], overrides: Sequence[str], way: str) -> Row:
        return of().swept(way, context_of(job, directory, overrides))

    def peer(way: str) -> Row | None:
        return plain().peer(way, directory)

    search = overrides_of(job.search)
    return {
        "fp32": lambda way: plain().row(way, plain().verifier.model, 0.0),
        "fp16": lambda way: plain().planned(way, plain().all_fp16()),
        **{f"int8, {estimator}": partial(estimated, estimator) for estimator in ESTIMATORS},
        "int8, auto": lambda way: plain().by_policy(way, "none"),
        "int8, auto, policy attention": lambda way: plain().by_policy(way, "attention"),
        "int8, auto, policy auto": partial(swept, plain, [*passes_off, *search]),
        "int8, optimized": lambda way: optimized().by_policy(way, "none"),
        "int8, optimized, policy attention": lambda way: optimized().by_policy(way, "attention"),
        "int8, optimized, policy auto": partial(swept, optimized, search),
        **{
            f"int8, optimized, {plan.name}": partial(swept, optimized, overrides_of(plan.overrides))
            for plan in job.plans
        },
        **dict.fromkeys(PEERS, peer),
    }


def task_contexts(job: Job, directory: Path) -> list[Context]:
    """The further tasks of a job, their records prepared.

    Args:
        job: names their configurations.
        directory: of the runs.
    """
    found = [context_of(replace(job, file=file, overrides=()), directory) for file in job.tasks]
    for context in found:
        run_stage(context, MODEL)
        run_stage(context, SET)
    return found


@dataclass(frozen=True)
class Bench:
    """A model, its ranges and the held-out samples.

    Attributes:
        name: for the table.
        context: configuration and run directory.
        tasks: the same of every task that the model is judged by.
        parts: what a sweep is made of.
        verifier: runs models on the held-out samples.
    """

    name: str
    context: Context
    tasks: Sequence[Context]
    parts: Parts
    verifier: Verifier

    @classmethod
    def of(cls, name: str, context: Context, tasks: Sequence[Context]) -> Bench:
        """By the model and ranges in force."""
        parts = Parts(context, Ledger(None, ALONE))
        return cls(name, context, tasks, parts, parts.verifier)

    def with_ranges(self, ranges: RangesRecord) -> Bench:
        """The same with other ranges."""
        return replace(self, verifier=replace(self.verifier, ranges=ranges))

    def candidates(self, estimator: str) -> RangesRecord:
        """The ranges that another estimator gives, by the histograms of stage 2."""
        rows = ClippingReport.read(self.context.folder("20_ranges") / "clipping.json").rows
        bounds = {
            x.tensor: {"low": x.low, "high": x.high, "estimator": estimator}
            for x in rows
            if x.split == "calibration" and x.candidate == estimator
        }
        chosen = self.verifier.ranges
        ranges = tuple(x.model_copy(update=bounds.get(x.tensor, {})) for x in chosen.ranges)
        return chosen.model_copy(update={"ranges": ranges})

    def by_policy(self, way: str, name: str) -> Row:
        """A plan that needs no search."""
        makes = {"none": policy_none, "attention": policy_attention}
        plan = plan_of(name, makes[name](self.parts.record, {}), self.parts.islands)
        return self.planned(way, plan)

    def all_fp16(self) -> PrecisionPlan:
        """No layer in INT8."""
        record = self.parts.record
        pinned = resolve_pins(record, [PinConfig(pattern="*", precision="fp16")])
        return plan_of("none", policy_none(record, pinned), self.parts.islands)

    def swept(self, way: str, context: Context) -> Row:
        """The plan that the sweep finds."""
        run_stage(context, SWEEP)
        return self.planned(way, PrecisionPlan.read(context.folder("30_sweep") / "plan.json"))

    def planned(self, way: str, plan: PrecisionPlan) -> Row:
        """A plan's deploy model, lowered, FP19 and fp16 rounding included."""
        v = self.verifier
        factors = v.factors(plan)
        deploy = deploy_model(v.model, v.record, factors, v.weights)
        fp19, islands = v.config.target.fp19_dequant, plan.island_nodes
        lowered = lower(deploy, fp19=fp19, emulate_fp16=True, islands=islands)
        return self.row(way, lowered, int8_mac_fraction(v.record, factors))

    def row(self, way: str, model: ir.Model, share: float | None) -> Row:
        """A model of the same bucket on the held-out samples, and on the task's."""
        return self.judged(way, OnnxRuntimeRunner(model, self.verifier.runtime), share)

    def judged(self, way: str, runner: OnnxRuntimeRunner | FileRunner, share: float | None) -> Row:
        """The same of what runs it."""
        v = self.verifier
        values = v.probe.measure(lambda number: runner.run(v.probe.feeds(number)))
        first: Measure = measures_of(v.criteria, values, v.probe, seed=v.config.run.seed)[0]
        found = Row(
            model=self.name,
            way=way,
            int8_mac_fraction=share,
            metric=first.metric,
            value=first.value,
            damage=first.damage,
            low=first.low,
            high=first.high,
            cosine_mean=float(values["cosine"].mean()),
            cosine_min=float(values["cosine"].min()),
            tasks=dict(self._judged_tasks(runner)),
        )
        runner.close()
        print({key: x for key, x in asdict(found).items() if x}, file=sys.stderr, flush=True)
        return found

    def _judged_tasks(self, runner: OnnxRuntimeRunner | FileRunner) -> Iterator[tuple[str, Score]]:
        record, dims = self.parts.record, self.context.config.target.buckets[0]
        for context in self.tasks:
            task = context.config.task
            if task is None or not task.sources:
                continue
            sets, truth = task_records(context, task)
            found = judge_records(task, truth, sets, runner, record, dims)
            score = found.score(seed=context.config.run.seed)
            yield task.kind, (score.value, score.low, score.high)

    def peer(self, peer: str, directory: Path) -> Row | None:
        """What another makes of the float model and the calibration samples."""
        v = self.verifier
        float_model = directory / f"{self.name}_float.onnx"
        save_model(v.model, float_model)
        output = directory / f"{self.name}_{peer.replace(', ', '_')}.onnx"
        transformer = "qkv" in {layer.role for layer in v.record.layers}
        try:
            quantize(peer, float_model, list(self._batches()), output, transformer=transformer)
            return self.judged(peer, FileRunner(output), None)
        except Exception as error:  # whatever another tool raises is its result
            print(f"{self.name}, {peer}: {error}", file=sys.stderr, flush=True)
            return None

    def _batches(self) -> Iterator[Feeds]:
        samples = SampleSet(self.context.folder("10_set") / "calibration")
        dims = self.context.config.target.buckets[0]
        for batch in bucket_batches(samples, self.parts.record, dims):
            yield dict(batch.feeds)


def figures_of(rows: Sequence[Row], expected: Mapping[str, tuple[float, float]]) -> list[Figure]:
    """The rows as figures.

    Args:
        rows: of the table.
        expected: interval by name of a figure; others have none.
    """
    found = list[Figure]()
    for x in rows:
        of = f"{x.model}, {x.way}"
        values = {f"{of}: {x.metric}": x.value, f"{of}: cosine": x.cosine_mean}
        values |= {f"{of}: {kind}": value for kind, (value, _, _) in x.tasks.items()}
        found += [Figure(key, value, within=expected.get(key)) for key, value in values.items()]
    return found
