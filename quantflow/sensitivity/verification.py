"""A plan as a whole: its deploy model, lowered, on samples that the search did not use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.ranges_record import RangesRecord
from quantflow.artifacts.sample_set import SampleSet
from quantflow.artifacts.sweep_record import PolicyResult
from quantflow.config import Config
from quantflow.export.deploy import boundaries, deploy_model
from quantflow.export.factors import layer_factors
from quantflow.export.int8_fraction import int8_mac_fraction
from quantflow.export.lowering import lower
from quantflow.graph.layer_settings import layer_settings
from quantflow.numerics.error_metrics import cosine, max_abs_error
from quantflow.runtime.bucket_run import as_vector, run_samples
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.tasks.fidelity import fidelity


@dataclass(frozen=True, slots=True)
class Verifier:
    """What is needed to run plans.

    Attributes:
        model: the static float model.
        dims: its sizes.
        record, ranges: of the model.
        samples: what plans are verified on.
        config: target, quantization, runtime and budget count.
    """

    model: ir.Model
    dims: Mapping[str, int]
    record: ModelRecord
    ranges: RangesRecord
    samples: SampleSet
    config: Config

    def factors(self, plan: PrecisionPlan) -> tuple[LayerFactors, ...]:
        """Factors of every layer under a plan."""
        granularity = layer_settings(self.record, self.config.quantization).granularity
        return layer_factors(self.model, self.record, self.ranges, plan, granularity)

    def run(self, plan: PrecisionPlan) -> PolicyResult:
        """Fidelity to fp32 of the plan's deploy model, FP19 and fp16 rounding included."""
        factors = self.factors(plan)
        deploy = deploy_model(self.model, self.record, factors)
        lowered = lower(
            deploy,
            fp19=self.config.target.fp19_dequant,
            emulate_fp16=True,
            islands=plan.island_nodes,
        )
        runners = [OnnxRuntimeRunner(model, self.config.runtime) for model in (self.model, lowered)]
        count = len(self.samples)
        cosines, errors = np.full(count, np.nan), np.full(count, np.nan)
        for index, (exact, other) in run_samples(runners, self.samples, self.record, self.dims):
            a, b = as_vector(exact), as_vector(other)
            cosines[index] = cosine(a[None], b[None])[0]
            errors[index] = max_abs_error(a, b)
        found = fidelity(cosines, errors, self.samples.ids, seed=self.config.run.seed)
        return PolicyResult(
            policy=plan.policy,
            fp16_groups=len(plan.fp16_groups),
            int8_mac_fraction=int8_mac_fraction(self.record, factors),
            boundaries=boundaries(deploy),
            cosine_mean=found.cosine_mean,
            cosine_min=found.cosine_min,
            cosine_low=found.cosine_low,
            cosine_high=found.cosine_high,
            meets_budget=found.cosine_mean >= self.config.budget.cosine_mean,
        )
