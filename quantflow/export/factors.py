"""Which layers are INT8 in the deploy model, with which factors, and why the others are not.

A layer that cannot be INT8 falls back alone: the other layers of its group keep their shared
AscendQuant, and the one that fell back reads the float tensor beside it.

An island that the plan leaves in INT8 stays INT8. What overflows fp16 is a tensor that it reads or
writes, and neither has to be fp16: its AscendQuant reads float32 and its AscendDequant writes
float32 (`dtype` 0), which `islands.py` arranges.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.model_record import Layer, ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.ranges_record import RangesRecord
from quantflow.artifacts.weight_file import array_of
from quantflow.config import Granularity
from quantflow.errors import Problem, QuantflowError, did_you_mean
from quantflow.export.int8_weights import NEAREST, Int8Weights
from quantflow.export.integers import (
    INT32_MAX,
    accumulator_bound,
    bias_steps,
    deq_scales,
    layer_integers,
)
from quantflow.export.weight_scale import layer_weight_scales
from quantflow.graph.edit import constant
from quantflow.graph.kinds.table import channel_axis, groups_of, weight_matrix
from quantflow.numerics.quantize import MAX_MULTIPLIER, MIN_MULTIPLIER, QuantParams


def layer_factors(
    model: ir.Model,
    record: ModelRecord,
    ranges: RangesRecord,
    plan: PrecisionPlan,
    granularity: Granularity | Mapping[str, Granularity],
    weights: Int8Weights = NEAREST,
) -> tuple[LayerFactors, ...]:
    """Decide every layer's precision and factors.

    Args:
        model: canonical or bucket model, for the weights.
        record: its layers and groups.
        ranges: of the quantizable tensors.
        plan: the precision plan in force.
        granularity: of the weight scales, for all layers or by name; a layer that was INT8 in the
            file that the model came from keeps those of the file.
        weights: of layers that are not rounded to the nearest, with their scales.

    Returns:
        One entry a layer, in the order of the record.

    Raises:
        QuantflowError: QF542 when the plan names a group that the model lacks, or leaves one out.
    """
    _check_plan(record, plan)
    params = {entry.tensor: entry.params for entry in ranges.ranges}
    given = {entry.layer: np.array(entry.scale_w, np.float32) for entry in record.given}
    given |= {name: entry.scales for name, entry in weights.items()}
    return tuple(
        _factors_of(
            model,
            layer,
            params,
            plan,
            _granularity_of(layer, granularity),
            given.get(layer.name),
        )
        for layer in record.layers
    )


def _granularity_of(
    layer: Layer, granularity: Granularity | Mapping[str, Granularity]
) -> Granularity:
    """Convolutions have a scale per output channel always."""
    if channel_axis(layer) == 1:
        return "per-channel"
    if isinstance(granularity, Mapping):
        return granularity.get(layer.name, "per-channel")
    return granularity


def _check_plan(record: ModelRecord, plan: PrecisionPlan) -> None:
    known = {group.name for group in record.groups}
    problems = [
        Problem("QF542", f"the model has no group {name!r}", "plan.json", did_you_mean(name, known))
        for name in plan.groups
        if name not in known
    ] + [
        Problem("QF542", f"the plan says nothing about group {name!r}", "plan.json", "add it")
        for name in sorted(known - plan.groups.keys())
    ]
    if problems:
        raise QuantflowError(problems)


def _factors_of(
    model: ir.Model,
    layer: Layer,
    params: Mapping[str, QuantParams],
    plan: PrecisionPlan,
    granularity: Granularity,
    given: NDArray[np.float32] | None,
) -> LayerFactors:
    reason = layer.float_reason or _planned_reason(layer, plan) or _ranges_reason(layer, params)
    if not reason:
        activation = params[layer.input]
        weight, bias = layer_constants(model, layer)
        reason = _constants_reason(weight, bias)
        if not reason:
            scale_w = given
            if scale_w is None:
                scale_w = _second_scales(layer, params, weight, bias, granularity)
            reason = _integers_reason(weight, bias, activation, scale_w)
            if not reason:
                return LayerFactors(
                    layer=layer.name,
                    group=layer.group,
                    precision="int8",
                    scale_d=activation.scale,
                    offset_d=activation.zero_point,
                    scale_w=tuple(float(scale) for scale in scale_w),
                    weight_granularity=granularity if layer.weight else None,
                )
    island = bool({layer.node, layer.bias_node} & plan.island_nodes)
    precision = "fp32" if island else "fp16"
    return LayerFactors(layer=layer.name, group=layer.group, precision=precision, reason=reason)


def _second_scales(
    layer: Layer,
    params: Mapping[str, QuantParams],
    weight: NDArray[np.float32],
    bias: NDArray[np.float32] | None,
    granularity: Granularity,
) -> NDArray[np.float32]:
    """Scales of what the activation is multiplied by: weight, other activation, or nothing (1)."""
    if layer.weight:
        return layer_weight_scales(weight, bias, params[layer.input].scale, granularity)
    second = params[layer.second_input].scale if layer.second_input else 1.0
    return np.array([second], np.float32)


def layer_constants(
    model: ir.Model, layer: Layer
) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """Weight as a matrix ``(K, N)`` and bias ``(N,)`` of a layer, float32.

    A layer without a weight has a matrix without rows.

    Raises:
        QuantflowError: QF543 when the model does not have them.
    """
    if not layer.weight:
        return np.zeros((0, 1), np.float32), None
    own_form = _initializer(model, layer, layer.weight)
    weight = weight_matrix(own_form, layer.op_type, groups_of(layer))
    if layer.bias is None:
        return weight, None
    bias = _initializer(model, layer, layer.bias)
    return weight, np.broadcast_to(bias, weight.shape[1:])


def _initializer(model: ir.Model, layer: Layer, name: str) -> NDArray[np.float32]:
    tensor = constant(model.graph.initializers.get(name))
    if tensor is None:
        problem = Problem(
            "QF543", f"no constant {name!r} in the model", f"layer {layer.name}", "rerun `prepare`"
        )
        raise QuantflowError([problem])
    return np.asarray(array_of(tensor), np.float32)


def _planned_reason(layer: Layer, plan: PrecisionPlan) -> str:
    group = plan.groups[layer.group]
    if group.precision == "int8":
        return ""
    return group.reason or "the plan keeps its group in fp16"


def _ranges_reason(layer: Layer, params: Mapping[str, QuantParams]) -> str:
    if not layer.second_input:
        return _range_reason(params.get(layer.input))
    for tensor in (layer.input, layer.second_input):
        found = params.get(tensor)
        if reason := _range_reason(found):
            return f"{tensor!r}: {reason}"
        if found is not None and found.zero_point != 0:
            return (
                f"a MatMul of two variables is symmetric, and the range of {tensor!r} has "
                f"zero point {found.zero_point}"
            )
    return ""


def _range_reason(params: QuantParams | None) -> str:
    if params is None:
        return "its input has no calibrated range"
    with np.errstate(divide="ignore", over="ignore"):
        multiplier = float(params.multiplier)
    if not MIN_MULTIPLIER <= multiplier <= MAX_MULTIPLIER:
        return (
            f"AscendQuant multiplies by 1 / scale = {multiplier:.4g}, "
            "which must lie in [2^-23, 2^23]"
        )
    return ""


def _constants_reason(weight: NDArray[np.float32], bias: NDArray[np.float32] | None) -> str:
    if not np.isfinite(weight).all():
        return "its weight holds NaN or Inf"
    if bias is not None and not np.isfinite(bias).all():
        return "its bias holds NaN or Inf"
    return ""


def _integers_reason(
    weight: NDArray[np.float32],
    bias: NDArray[np.float32] | None,
    params: QuantParams,
    scale_w: NDArray[np.float32],
) -> str:
    scales = deq_scales(params.scale, scale_w)
    if not np.isfinite(scales).all() or (scales < np.finfo(np.float32).tiny).any():
        return "a dequantization scale, scale_d * scale_w, is not a normal float32"
    if bias is not None:
        largest = float(np.abs(bias_steps(bias, params.scale, scale_w)).max(initial=0.0))
        if largest > INT32_MAX:
            return f"its bias leaves int32: {largest:.4g} steps of scale_d * scale_w"
    bound = accumulator_bound(
        layer_integers(weight, bias, params.scale, scale_w), params.zero_point
    )
    if bound > INT32_MAX:
        return f"its accumulator may leave int32: up to {bound}"
    return ""
