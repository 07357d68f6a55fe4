"""The passes in order, each kept where it brings the INT8 model nearer to the float one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.optimize_record import Pass, PassName, RebuiltLayer, ShiftedTensor
from quantflow.artifacts.ranges_record import RangesRecord
from quantflow.config import OptimizeConfig, QuantizationConfig
from quantflow.export.int8_weights import Int8Weights, LayerWeights
from quantflow.graph.layer_settings import layer_settings
from quantflow.progress import Progress, no_progress
from quantflow.ranges.choose_ranges import JUDGED_ROWS
from quantflow.ranges.collect import TensorStatistics
from quantflow.recovery.calibrate import Calibrated, Collect, calibrate
from quantflow.recovery.rebuild import Rebuilt
from quantflow.recovery.recall import Recall
from quantflow.recovery.shift_model import shift_model
from quantflow.recovery.smooth_model import Smoothing, smooth_model

LARGEST_DIFFERENCE = 1e-5
"""Difference from which on a transform has gone wrong; float32 rounds otherwise."""

_GONE_WRONG = "{} was left out: the float model's outputs would move by {:.2g}"


@dataclass(frozen=True, slots=True)
class Variant:
    """A model in INT8: what it computes in float, and how it is quantized.

    Attributes:
        model, record: canonical.
        ranges: of its tensors.
        weights: of layers that are not rounded to the nearest.
    """

    model: ir.Model
    record: ModelRecord
    ranges: RangesRecord
    weights: Int8Weights = field(default_factory=dict[str, LayerWeights])


@dataclass(frozen=True, slots=True)
class Tools:
    """What the passes work with.

    Attributes:
        describe: the record of a transformed model.
        static: the first bucket of a canonical model.
        collect: runs the calibration samples.
        difference: largest difference of a float model's outputs to those of the model that came,
            relative to their largest magnitude.
        measure: how far a variant is from the float model, smaller is better; noted under a name.
        recall: gives results that were noted before a kill.
        progress: called as work goes on.
    """

    describe: Callable[[ir.Model], ModelRecord]
    static: Callable[[ir.Model], ir.Model]
    collect: Collect
    difference: Callable[[ir.Model], float]
    measure: Callable[[str, Variant], float]
    recall: Recall
    progress: Progress = no_progress


@dataclass(frozen=True, slots=True)
class Optimized:
    """What the passes came to.

    Attributes:
        best: the variant in force.
        passes: in order.
        shifted: tensors whose channels are centred in it.
        smoothed: what was smoothed in it; None where nothing was.
        layers: that were rebuilt in it.
        float_difference: what the transforms do to the float model's outputs, see `Tools`.
        notes: what a person should know.
    """

    best: Variant
    passes: tuple[Pass, ...]
    shifted: tuple[ShiftedTensor, ...]
    smoothed: Smoothing | None
    layers: tuple[RebuiltLayer, ...]
    float_difference: float
    notes: tuple[str, ...]


def optimize(
    start: Variant, asked: OptimizeConfig, quantization: QuantizationConfig, tools: Tools
) -> Optimized:
    """Shift, smooth, round and correct.

    Args:
        start: as calibrated.
        asked: which passes are on.
        quantization: how tensors and layers are quantized.
        tools: to work with.
    """
    work = _Work(start, asked, quantization, tools, tools.measure("as calibrated", start))
    if asked.shift:
        work.shift()
    if asked.smoothing:
        work.smooth()
    if asked.rounding or asked.bias_correction:
        work.rebuild()
    rebuilt = work.rebuilt if work.best.weights else {}
    return Optimized(
        work.best,
        tuple(work.passes),
        work.shifted,
        work.smoothed,
        tuple(rebuilt[x.name].record for x in work.best.record.layers if x.name in rebuilt),
        work.difference,
        tuple(work.notes),
    )


@dataclass(slots=True)
class _Work:
    """The passes under way.

    Attributes:
        best: the variant in force so far.
        asked, quantization, tools: as `optimize` was given them.
        error: of the best variant.
        passes, notes, difference, shifted, smoothed: see `Optimized`.
        rebuilt: layers of the best variant, by name.
    """

    best: Variant
    asked: OptimizeConfig
    quantization: QuantizationConfig
    tools: Tools
    error: float
    passes: list[Pass] = field(default_factory=list[Pass])
    notes: list[str] = field(default_factory=list[str])
    difference: float = 0.0
    shifted: tuple[ShiftedTensor, ...] = ()
    smoothed: Smoothing | None = None
    rebuilt: dict[str, Rebuilt] = field(default_factory=dict[str, Rebuilt])
    _seen: tuple[ir.Model, dict[str, TensorStatistics]] | None = None

    def shift(self) -> None:
        """Centred channels, and the ranges that go with them."""
        model, record = self.best.model, self.best.record
        found = shift_model(model, self.tools.static(model), record, self._statistics())
        if found.tensors and self._transform("shift", found.model, rebuilds=False):
            self.shifted = found.tensors

    def smooth(self) -> None:
        """Smoothing, and the ranges and integers that go with it."""
        model, record = self.best.model, self.best.record
        found = smooth_model(
            model,
            self.tools.static(model),
            record,
            self._statistics(),
            layer_settings(record, self.quantization),
            multiply=self.asked.multiply,
            recall=self.tools.recall,
            progress=self.tools.progress,
        )
        self._seen = None
        if found.changed and self._transform("smoothing", found.model, rebuilds=True):
            self.smoothed = found

    def rebuild(self) -> None:
        """Rounding, then bias correction of what rounding came to."""
        if not self.rebuilt:
            outcome = self._calibrate("in force", self.best, self.best.ranges, rebuilds=True)
            self.rebuilt = {x.record.layer: x for x in outcome.rebuilt}
        if self.asked.rounding and self.rebuilt:
            rounded = {name: x.rounded for name, x in self.rebuilt.items()}
            self._judge("rounding", replace(self.best, weights=rounded))
        biased = any(x.rounded.bias is not None for x in self.rebuilt.values())
        if self.asked.bias_correction and biased:
            corrected = _corrected(self.best, self.rebuilt)
            self._judge("bias correction", replace(self.best, weights=corrected))

    def _statistics(self) -> dict[str, TensorStatistics]:
        """Of the best variant so far; not run again for the model that they are of."""
        if self._seen is None or self._seen[0] is not self.best.model:
            model, record = self.best.model, self.best.record
            seen = self.tools.collect(model, record, record.tensors, JUDGED_ROWS)
            self._seen = model, seen
        return self._seen[1]

    def _transform(self, name: PassName, model: ir.Model, *, rebuilds: bool) -> bool:
        """Calibrate and judge a model that should compute what the float model does."""
        difference = self.tools.difference(model)
        if difference > LARGEST_DIFFERENCE:
            self.notes.append(_GONE_WRONG.format(name, difference))
            return False
        variant = replace(self.best, model=model, record=self.tools.describe(model))
        outcome = self._calibrate(name, variant, None, rebuilds=rebuilds)
        kept = self._judge(name, replace(variant, ranges=outcome.ranges))
        if kept:
            self.difference = difference
            self.rebuilt = {x.record.layer: x for x in outcome.rebuilt}
        return kept

    def _judge(self, name: PassName, variant: Variant) -> bool:
        """Measure a variant, and take it if it is better."""
        found = self.tools.measure(name, variant)
        kept = found < self.error
        self.passes.append(Pass(name=name, kept=kept, error_before=self.error, error_after=found))
        if kept:
            self.best, self.error = variant, found
        return kept

    def _calibrate(
        self, which: str, variant: Variant, ranges: RangesRecord | None, *, rebuilds: bool
    ) -> Calibrated:
        return calibrate(
            variant.model,
            variant.record,
            ranges,
            layer_settings(variant.record, self.quantization),
            self.tools.collect,
            lambda key, compute: self.tools.recall(f"{which}\n{key}", compute),
            self.tools.progress,
            rebuilds=rebuilds and (self.asked.rounding or self.asked.bias_correction),
            rounding=self.asked.rounding,
        )


def _corrected(best: Variant, rebuilt: Mapping[str, Rebuilt]) -> dict[str, LayerWeights]:
    """The weights in force, with corrected biases."""
    if best.weights:
        return {name: replace(x.rounded, bias=x.rounded_bias) for name, x in rebuilt.items()}
    return {
        name: replace(x.nearest, bias=x.nearest_bias)
        for name, x in rebuilt.items()
        if x.nearest_bias is not None
    }
