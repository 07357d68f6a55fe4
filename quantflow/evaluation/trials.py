"""The model with one thing changed, on the samples of all experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import onnx_ir as ir

from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.ranges_record import RangesRecord
from quantflow.config import Granularity, RuntimeConfig
from quantflow.export.deploy import deploy_model
from quantflow.export.factors import layer_constants, layer_factors
from quantflow.export.int8_weights import Int8Weights, LayerWeights
from quantflow.export.lowering import lower
from quantflow.export.qdq import Side, qdq_model
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.sensitivity.ledger import Ledger
from quantflow.sensitivity.probe import Probe
from quantflow.tasks.metrics import Values

Found = Mapping[str, Values]
"""``(S,)`` values by metric."""


@dataclass(frozen=True, slots=True)
class Setup:
    """All that decides the INT8 model of a float one.

    Attributes:
        plan: what is INT8.
        ranges: of its activations.
        granularity: of weight scales, by layer.
        weights: of layers that are not rounded to the nearest.
    """

    plan: PrecisionPlan
    ranges: RangesRecord
    granularity: Mapping[str, Granularity]
    weights: Int8Weights


@dataclass(frozen=True, slots=True)
class Trials:
    """Runs a static model as it would be with one setup or another.

    Attributes:
        model: the static float model.
        record: its layers and groups.
        probe: the samples.
        fp19: whether the chip truncates dequantization scales.
        runtime: how to run.
        ledger: what was measured before, as before a kill, is not measured again.
    """

    model: ir.Model
    record: ModelRecord
    probe: Probe
    fp19: bool
    runtime: RuntimeConfig
    ledger: Ledger

    def deployed(self, name: str, setup: Setup) -> Found:
        """The deploy model, lowered, with fp16 rounding of what is not INT8."""

        def model() -> ir.Model:
            deploy = deploy_model(self.model, self.record, self.factors(setup), setup.weights)
            islands = setup.plan.island_nodes
            return lower(deploy, fp19=self.fp19, emulate_fp16=True, islands=islands)

        return self._noted(name, lambda: self._values(model(), optimize=True))

    def one_side(self, name: str, setup: Setup, side: Side) -> Found:
        """Only one side of the INT8 layers quantized, the rest fp32."""

        def model() -> ir.Model:
            factors = self.factors(setup)
            return qdq_model(self.model, self.record, factors, side, setup.weights)

        # onnxruntime would quantize the weights of a convolution that reads a QDQ pair.
        return self._noted(name, lambda: self._values(model(), optimize=False))

    def factors(self, setup: Setup) -> tuple[LayerFactors, ...]:
        """Factors of every layer."""
        return layer_factors(
            self.model, self.record, setup.ranges, setup.plan, setup.granularity, setup.weights
        )

    def with_ranges(self, setup: Setup, ranges: RangesRecord) -> Setup:
        """The setup with other ranges, and biases as in float.

        A bias that was corrected makes up for what the former ranges did on average.
        """
        weights = dict[str, LayerWeights]()
        layers = {layer.name: layer for layer in self.record.layers}
        for name, entry in setup.weights.items():
            bias = layer_constants(self.model, layers[name])[1]
            weights[name] = replace(entry, bias=bias)
        return replace(setup, ranges=ranges, weights=weights)

    def per_channel(self, setup: Setup) -> Setup:
        """The setup with a weight scale per output channel everywhere."""
        weights = {k: x for k, x in setup.weights.items() if len(x.scales) > 1}
        channels: dict[str, Granularity] = {x.name: "per-channel" for x in self.record.layers}
        return replace(setup, granularity=channels, weights=weights)

    def _values(self, model: ir.Model, *, optimize: bool) -> Found:
        runner = OnnxRuntimeRunner(model, self.runtime, optimize=optimize)
        found = self.probe.measure(lambda number: runner.run(self.probe.feeds(number)))
        runner.close()
        return found

    def _noted(self, name: str, measured: Callable[[], Found]) -> Found:
        def noted() -> dict[str, list[float]]:
            return {metric: values.tolist() for metric, values in measured().items()}

        found = cast("dict[str, list[float]]", self.ledger.recall(f"experiment\n{name}", noted))
        return {metric: np.array(values, np.float64) for metric, values in found.items()}
