"""Which layers are INT8 in the deploy model, with which factors, and why the others are not.

A layer that cannot be INT8 falls back alone: the other layers of its group keep their shared
AscendQuant, and the one that fell back reads the float tensor beside it.

An island that the plan leaves in INT8 stays INT8. What overflows fp16 is a tensor that it reads or
writes, and neither has to be fp16: its AscendQuant reads float32 and its AscendDequant writes
float32 (`dtype` 0), which `islands.py` arranges.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.model_record import Layer, ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.ranges_record import RangesRecord
from quantflow.config import Granularity
from quantflow.errors import Problem, QuantflowError, did_you_mean
from quantflow.export.integers import (
    INT32_MAX,
    accumulator_bound,
    bias_steps,
    deq_scales,
    layer_integers,
)
from quantflow.export.weight_scale import layer_weight_scales
from quantflow.graph.edit import constant
from quantflow.numerics.quantize import MAX_MULTIPLIER, MIN_MULTIPLIER, QuantParams


def layer_factors(
    model: ir.Model,
    record: ModelRecord,
    ranges: RangesRecord,
    plan: PrecisionPlan,
    granularity: Granularity,
) -> tuple[LayerFactors, ...]:
    """Decide every layer's precision and factors.

    Args:
        model: canonical or bucket model, for the weights.
        record: its layers and groups.
        ranges: of the quantizable tensors.
        plan: the precision plan in force.
        granularity: of the weight scales.

    Returns:
        One entry a layer, in the order of the record.

    Raises:
        QuantflowError: QF542 when the plan names a group that the model lacks, or leaves one out.
    """
    _check_plan(record, plan)
    params = {entry.tensor: entry.params for entry in ranges.ranges}
    return tuple(
        _factors_of(model, layer, params.get(layer.input), plan, granularity)
        for layer in record.layers
    )


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
    params: QuantParams | None,
    plan: PrecisionPlan,
    granularity: Granularity,
) -> LayerFactors:
    reason = layer.float_reason or _planned_reason(layer, plan) or _range_reason(params)
    if not reason and params is not None:
        weight, bias = layer_constants(model, layer)
        reason = _constants_reason(weight, bias)
        if not reason:
            scale_w = layer_weight_scales(weight, bias, params.scale, granularity)
            reason = _integers_reason(weight, bias, params, scale_w)
            if not reason:
                return LayerFactors(
                    layer=layer.name,
                    group=layer.group,
                    precision="int8",
                    scale_d=params.scale,
                    offset_d=params.zero_point,
                    scale_w=tuple(float(scale) for scale in scale_w),
                )
    island = bool({layer.node, layer.bias_node} & plan.island_nodes)
    precision = "fp32" if island else "fp16"
    return LayerFactors(layer=layer.name, group=layer.group, precision=precision, reason=reason)


def layer_constants(
    model: ir.Model, layer: Layer
) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """Weight ``(K, N)`` and bias ``(N,)`` of a MatMul or Gemm layer, float32.

    Raises:
        QuantflowError: QF543 when the model does not have them.
    """
    weight = _initializer(model, layer, layer.weight)
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
    return np.asarray(tensor.numpy(), np.float32)


def _planned_reason(layer: Layer, plan: PrecisionPlan) -> str:
    group = plan.groups[layer.group]
    if group.precision == "int8":
        return ""
    return group.reason or "the plan keeps its group in fp16"


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
