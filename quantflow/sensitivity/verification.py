"""A plan as a whole: its deploy model, lowered, on samples that the search did not use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.ranges_record import RangesRecord
from quantflow.artifacts.sweep_record import Measure, PolicyResult
from quantflow.config import Config, RuntimeConfig
from quantflow.export.deploy import boundaries, deploy_model
from quantflow.export.factors import layer_factors
from quantflow.export.int8_fraction import int8_mac_fraction
from quantflow.export.int8_weights import Int8Weights, LayerWeights
from quantflow.export.lowering import lower
from quantflow.export.qdq import Side, qdq_model
from quantflow.graph.layer_settings import layer_settings
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.sensitivity.cost import CostModel
from quantflow.sensitivity.ledger import Ledger
from quantflow.sensitivity.measures import measures_of
from quantflow.sensitivity.probe import Probe
from quantflow.sensitivity.search import Limits
from quantflow.tasks.criteria import Criterion
from quantflow.tasks.metrics import Values


@dataclass(frozen=True, slots=True)
class Verifier:
    """What is needed to run plans.

    Attributes:
        model: the static float model.
        record, ranges: of the model.
        probe: the verification samples; `cosine` is among its metrics.
        criteria: what plans are measured by.
        cost: of every group.
        limits: what plans may not go beyond.
        config: target, quantization and seed count.
        runtime: how to run.
        ledger: a plan that was run before, as before a kill, is not run again.
        weights: of layers that are not rounded to the nearest.
    """

    model: ir.Model
    record: ModelRecord
    ranges: RangesRecord
    probe: Probe
    criteria: Mapping[str, Criterion]
    cost: CostModel
    limits: Limits
    config: Config
    runtime: RuntimeConfig
    ledger: Ledger
    weights: Int8Weights = field(default_factory=dict[str, LayerWeights])

    def factors(self, plan: PrecisionPlan) -> tuple[LayerFactors, ...]:
        """Factors of every layer under a plan."""
        granularity = layer_settings(self.record, self.config.quantization).granularity
        return layer_factors(self.model, self.record, self.ranges, plan, granularity, self.weights)

    def run(self, plan: PrecisionPlan) -> PolicyResult:
        """The plan's deploy model, FP19 and fp16 rounding included."""
        key = "\n".join(["verified", *plan.fp16_groups])
        found = self.ledger.recall(key, lambda: self._run(plan).model_dump())
        return PolicyResult.model_validate({**found, "policy": plan.policy})

    def one_side(self, plan: PrecisionPlan, side: Side) -> tuple[Measure, ...]:
        """Only weights, or only activations, of the plan's INT8 layers quantized, the rest fp32."""

        def measured() -> list[dict[str, Any]]:
            factors = self.factors(plan)
            twin = qdq_model(self.model, self.record, factors, side, self.weights)
            # onnxruntime would quantize the weights of a convolution that reads a QDQ pair.
            values = self._values(twin, optimize=False)
            return [measure.model_dump() for measure in self._measures(values)]

        found = self.ledger.recall("\n".join([f"only {side}", *plan.fp16_groups]), measured)
        return tuple(Measure.model_validate(entry) for entry in found)

    def _run(self, plan: PrecisionPlan) -> PolicyResult:
        factors = self.factors(plan)
        deploy = deploy_model(self.model, self.record, factors, self.weights)
        lowered = lower(
            deploy,
            fp19=self.config.target.fp19_dequant,
            emulate_fp16=True,
            islands=plan.island_nodes,
        )
        values = self._values(lowered)
        measures = self._measures(values)
        within = self.limits.allow(self.record, frozenset(plan.fp16_groups))
        return PolicyResult(
            policy=plan.policy,
            fp16_groups=len(plan.fp16_groups),
            int8_mac_fraction=int8_mac_fraction(self.record, factors),
            boundaries=boundaries(deploy),
            cost=self.cost.of(plan.fp16_groups),
            measures=measures,
            cosine_min=float(values["cosine"].min()),
            meets_budget=within and all(measure.meets for measure in measures),
        )

    def _values(self, model: ir.Model, *, optimize: bool = True) -> dict[str, Values]:
        runner = OnnxRuntimeRunner(model, self.runtime, optimize=optimize)
        found = self.probe.measure(lambda number: runner.run(self.probe.feeds(number)))
        runner.close()
        return found

    def _measures(self, values: Mapping[str, Values]) -> tuple[Measure, ...]:
        seed = self.config.run.seed
        return measures_of(self.criteria, values, self.probe, seed=seed)
