"""The work of the optimization: transforms, rounding and bias correction, each kept if it helps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path

import numpy as np
import onnx_ir as ir

from quantflow.artifacts.journal import Journal
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.optimize_record import OptimizeRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.ranges_record import Fp16Report, RangesRecord
from quantflow.artifacts.run_directory import JOURNAL
from quantflow.artifacts.sample_set import SampleSet
from quantflow.export.deploy import deploy_model
from quantflow.export.factors import layer_factors
from quantflow.export.int8_weights import save_int8_weights
from quantflow.export.lowering import lower
from quantflow.graph.bucket import bucket_model
from quantflow.graph.edit import values_by_name
from quantflow.graph.layer_settings import layer_settings
from quantflow.graph.layers import describe_model
from quantflow.graph.model_io import load_model, save_model
from quantflow.ranges.collect import TensorStatistics
from quantflow.recovery.optimize import Optimized, Tools, Variant, optimize
from quantflow.recovery.smooth_model import Smoothing
from quantflow.runtime.bucket_run import run_samples
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.workers import ALONE
from quantflow.sensitivity.ledger import Ledger
from quantflow.sensitivity.policy import plan_of, policy_none
from quantflow.sensitivity.probe import Probe
from quantflow.stages.collecting import collect_split, open_tensors
from quantflow.stages.fp16_report import fp16_report
from quantflow.stages.stage import Context
from quantflow.tasks.metrics import METRICS, Metric

SAMPLES = 32
"""Held-out samples that passes are judged on: what they were chosen by flatters them."""

PROVEN_SAMPLES = 4
"""Calibration samples that the float model is compared with its transformed self on."""


def work(context: Context, folder: Path) -> None:
    """Write `optimize.json` and, where a pass is kept, model, ranges, weights and fp16 report."""
    context = replace(context, workers=ALONE)  # the leader works alone
    asked = context.config.optimize
    record = ModelRecord.read(context.folder("00_model") / "model.json")
    if record.given:
        note = "the model came quantized, and keeps the integers of its file"
        OptimizeRecord(passes=(), samples=0, notes=(note,)).write(folder / "optimize.json")
        return
    if not (asked.shift or asked.smoothing or asked.rounding or asked.bias_correction):
        OptimizeRecord(passes=(), samples=0).write(folder / "optimize.json")
        return
    job = _Job(context, record, Ledger(Journal(folder / JOURNAL), ALONE))
    found = optimize(job.start, asked, context.config.quantization, job.tools)
    smoothed = found.smoothed
    OptimizeRecord(
        passes=found.passes,
        metric=job.metric_name,
        samples=len(job.probe),
        float_difference=found.float_difference,
        shifted=found.shifted,
        tensors=smoothed.tensors if smoothed else (),
        balanced=smoothed.balanced if smoothed else (),
        layers=found.layers,
        notes=found.notes,
        multiplied_elements=_multiplied(job.static(found.best.model), smoothed) if smoothed else 0,
    ).write(folder / "optimize.json")
    if any(entry.kept for entry in found.passes):
        _write(context, folder, found)


def _write(context: Context, folder: Path, found: Optimized) -> None:
    """What later stages read in place of the model and the ranges."""
    best = found.best
    save_model(best.model, folder / "model.onnx")
    best.record.write(folder / "model.json")
    best.ranges.write(folder / "ranges.json")
    if best.weights:
        save_int8_weights(folder / "weights.safetensors", best.weights)
    if found.shifted or found.smoothed:
        report = fp16_report(context, load_model(folder / "model.onnx"), best.record)
    else:
        report = Fp16Report.read(context.folder("20_ranges") / "fp16.json")
    report.write(folder / "fp16.json")


def _multiplied(static: ir.Model, found: Smoothing) -> int:
    """Elements that go through an added Mul, of one sample."""
    values = values_by_name(static)
    shapes = [values[x.tensor].shape for x in found.tensors if x.how == "multiplied"]
    return sum(prod(shape.numpy()[1:]) for shape in shapes if shape is not None)


@dataclass(frozen=True)
class _Job:
    """What the passes need of a run."""

    context: Context
    record: ModelRecord
    ledger: Ledger

    @cached_property
    def start(self) -> Variant:
        """The model as stage 2 left it."""
        model = load_model(self.context.folder("00_model") / "model.onnx")
        ranges = RangesRecord.read(self.context.folder("20_ranges") / "ranges.json")
        return Variant(model, self.record, ranges)

    @cached_property
    def tools(self) -> Tools:
        return Tools(
            describe=self.describe,
            static=self.static,
            collect=self.collect,
            measure=self.measure,
            difference=self.difference,
            recall=self.ledger.recall,
            progress=self.context.progress,
        )

    @cached_property
    def _statics(self) -> dict[ir.Model, ir.Model]:
        """Buckets made so far: of the model that came, and of transformed ones."""
        return {}

    def static(self, model: ir.Model) -> ir.Model:
        """The first bucket, which is the one that is evaluated; not to be changed."""
        if model not in self._statics:
            self._statics[model] = bucket_model(model, self.context.config.target.buckets[0])
        return self._statics[model]

    def describe(self, model: ir.Model) -> ModelRecord:
        """The record of a transformed model: its layers and groups are those of the float one."""
        quantization = self.context.config.quantization
        found = describe_model(
            model,
            self.context.config.target.buckets[0],
            mask=self.record.mask.name if self.record.mask else None,
            notes=[],
            optional=quantization.optional_layers,
        )
        roles = {x.name: x.role for x in self.record.layers}
        layers = tuple(x.model_copy(update={"role": roles[x.name]}) for x in found.layers)
        groups = {x.name: x.role for x in self.record.groups}
        return found.model_copy(
            update={
                "layers": layers,
                "groups": tuple(
                    x.model_copy(update={"role": groups[x.name]}) for x in found.groups
                ),
                "notes": self.record.notes,
                "origin": self.record.origin,
            }
        )

    def collect(
        self, model: ir.Model, record: ModelRecord, tensors: Sequence[str], rows: int
    ) -> dict[str, TensorStatistics]:
        """Statistics on the calibration set."""
        opened = open_tensors(self.context, model, record, tensors)
        found = collect_split(self.context, opened, record, "calibration", tensors, rows)
        return found.tensors

    @property
    def metric_name(self) -> str:
        """What passes are judged by: what groups are ranked by, or what is steadier."""
        name = self.context.config.plan.metric
        steadier = {"perplexity": "kl", "agreement": "relative_error", "function": "relative_error"}
        return steadier.get(name, name)

    @cached_property
    def metric(self) -> Metric:
        return METRICS[self.metric_name]

    @cached_property
    def probe(self) -> Probe:
        """The samples that passes are judged on, and the float model on them."""
        samples = SampleSet(self.context.folder("10_set") / "heldout")
        count = min(SAMPLES, self.context.config.plan.samples, len(samples))
        runner = OnnxRuntimeRunner(self.static(self.start.model), self.context.config.runtime)
        probe = Probe(
            runner.run,
            samples.first(count),
            samples.ids[:count],
            self.record,
            self.context.config.target.buckets[0],
            {self.metric_name: self.metric},
        )
        runner.close()
        return probe

    def measure(self, name: str, variant: Variant) -> float:
        """Mean damage of a variant with everything INT8, by the metric."""
        return self.ledger.recall(f"measured\n{name}", lambda: self._measure(variant))

    def _measure(self, variant: Variant) -> float:
        config, record = self.context.config, variant.record
        static = self.static(variant.model)
        plan: PrecisionPlan = plan_of("none", policy_none(record, {}), ())
        granularity = layer_settings(record, config.quantization).granularity
        factors = layer_factors(static, record, variant.ranges, plan, granularity, variant.weights)
        deploy = deploy_model(static, record, factors, variant.weights)
        fp19 = config.target.fp19_dequant
        lowered = lower(deploy, fp19=fp19, emulate_fp16=False, islands=frozenset())
        runner = OnnxRuntimeRunner(lowered, config.runtime)
        values = self.probe.measure(lambda number: runner.run(self.probe.feeds(number)))
        runner.close()
        damage = self.metric.damage(values[self.metric_name], self.probe.of_float[self.metric_name])
        return float(damage.mean())

    def difference(self, model: ir.Model) -> float:
        """Largest difference of outputs to the float model's, relative to their largest one."""
        dims = self.context.config.target.buckets[0]
        calibration = SampleSet(self.context.folder("10_set") / "calibration")
        samples = list(calibration.first(PROVEN_SAMPLES))
        models = [self.static(self.start.model), self.static(model)]
        runners = [OnnxRuntimeRunner(x, self.context.config.runtime) for x in models]
        worst = 0.0
        for _, (expected, found) in run_samples(runners, samples, self.record, dims):
            for name, array in expected.items():
                if np.issubdtype(array.dtype, np.floating):
                    largest = float(np.abs(array).max(initial=0.0)) or 1.0
                    difference = float(np.abs(array - found[name]).max(initial=0.0))
                    worst = max(worst, np.nan_to_num(difference / largest, nan=np.inf))
        return worst
