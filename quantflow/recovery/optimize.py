"""The passes in order, each kept where it brings the INT8 model nearer to the float one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.optimize_record import Pass, PassName, RebuiltLayer
from quantflow.artifacts.ranges_record import RangesRecord
from quantflow.config import OptimizeConfig, QuantizationConfig
from quantflow.export.int8_weights import Int8Weights, LayerWeights
from quantflow.graph.layer_settings import layer_settings
from quantflow.progress import Progress, no_progress
from quantflow.recovery.calibrate import RANGE_ROWS, Calibrated, Collect, calibrate
from quantflow.recovery.rebuild import Rebuilt, Recall
from quantflow.recovery.smooth_model import Smoothing, smooth_model

LARGEST_DIFFERENCE = 1e-5
"""Difference from which on a transform has gone wrong; float32 rounds otherwise."""

_GONE_WRONG = "smoothing was left out: the float model's outputs would move by {:.2g}"


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
        smoothed: what was smoothed in it; None where nothing was.
        layers: that were rebuilt in it.
        float_difference: what smoothing does to the float model's outputs, see `Tools`.
        notes: what a person should know.
    """

    best: Variant
    passes: tuple[Pass, ...]
    smoothed: Smoothing | None
    layers: tuple[RebuiltLayer, ...]
    float_difference: float
    notes: tuple[str, ...]


def optimize(
    start: Variant, asked: OptimizeConfig, quantization: QuantizationConfig, tools: Tools
) -> Optimized:
    """Smooth, round and correct.

    Args:
        start: as calibrated.
        asked: which passes are on.
        quantization: how tensors and layers are quantized.
        tools: to work with.
    """
    best, error = start, tools.measure("as calibrated", start)
    passes, notes, smoothed, difference = list[Pass](), list[str](), None, 0.0
    rebuilds = asked.rounding or asked.bias_correction
    rebuilt = dict[str, Rebuilt]()

    def calibrated(variant: Variant, ranges: RangesRecord | None) -> Calibrated:
        settings = layer_settings(variant.record, quantization)
        which = "smoothed" if ranges is None else "as calibrated"
        return calibrate(
            variant.model,
            variant.record,
            ranges,
            settings,
            tools.collect,
            lambda key, compute: tools.recall(f"{which}\n{key}", compute),
            tools.progress,
            rebuilds=rebuilds,
            rounding=asked.rounding,
        )

    def judge(name: PassName, variant: Variant) -> bool:
        nonlocal best, error
        found = tools.measure(name, variant)
        kept = found < error
        passes.append(Pass(name=name, kept=kept, error_before=error, error_after=found))
        if kept:
            best, error = variant, found
        return kept

    if asked.smoothing:
        found = _smooth(start, asked, quantization, tools)
        if found.changed:
            difference = tools.difference(found.model)
            if difference > LARGEST_DIFFERENCE:
                notes.append(_GONE_WRONG.format(difference))
        if found.changed and not notes:
            variant = replace(start, model=found.model, record=tools.describe(found.model))
            outcome = calibrated(variant, None)
            kept = judge("smoothing", replace(variant, ranges=outcome.ranges))
            smoothed = found if kept else None
            rebuilt = {x.record.layer: x for x in outcome.rebuilt} if kept else {}
    if rebuilds and not rebuilt:
        outcome = calibrated(best, best.ranges)
        rebuilt = {x.record.layer: x for x in outcome.rebuilt}
    if asked.rounding and rebuilt:
        judge("rounding", replace(best, weights={k: x.rounded for k, x in rebuilt.items()}))
    if asked.bias_correction and any(x.rounded.bias is not None for x in rebuilt.values()):
        judge("bias correction", replace(best, weights=_corrected(best, rebuilt)))
    layers = tuple(rebuilt[x.name].record for x in best.record.layers if x.name in rebuilt)
    return Optimized(
        best,
        tuple(passes),
        smoothed,
        layers if best.weights else (),
        difference if smoothed else 0.0,
        tuple(notes),
    )


def _smooth(
    start: Variant, asked: OptimizeConfig, quantization: QuantizationConfig, tools: Tools
) -> Smoothing:
    seen = tools.collect(start.model, start.record, start.record.tensors, RANGE_ROWS)
    return smooth_model(
        start.model,
        tools.static(start.model),
        start.record,
        seen,
        layer_settings(start.record, quantization),
        multiply=asked.multiply,
        recall=tools.recall,
        progress=tools.progress,
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
