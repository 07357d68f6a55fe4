"""A layer's integers chosen by what they make of its inputs: rounding and bias correction."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.optimize_record import RebuiltLayer
from quantflow.config import Granularity
from quantflow.export.int8_weights import LayerWeights
from quantflow.export.weight_scale import layer_weight_scales
from quantflow.numerics.quantize import QuantParams, dequantize_weight, quantize_weight
from quantflow.recovery.layer_inputs import LayerInputs, layer_inputs
from quantflow.recovery.recall import Recall
from quantflow.recovery.rounding import round_weight

Floats = NDArray[np.float32]
Steps = NDArray[np.int8]


MOST_INPUTS = 8192
"""Inputs of a layer, K, up to which it is rounded by the output: memory grows with their square,
to 2 GB here, and time with their cube."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A layer's integers, rounded in two ways, each with the bias as it is and corrected.

    Attributes:
        record: the errors.
        nearest, rounded: weights rounded to the nearest, and by the output.
        nearest_bias, rounded_bias: ``(N,)`` float32 corrected biases, None for a layer without.
    """

    record: RebuiltLayer
    nearest: LayerWeights
    rounded: LayerWeights
    nearest_bias: Floats | None
    rounded_bias: Floats | None


def rebuild(
    name: str,
    weight: Floats,
    bias: Floats | None,
    groups: int,
    rows: Floats,
    params: QuantParams,
    granularity: Granularity,
    recall: Recall,
    *,
    rounding: bool,
) -> Rebuilt | None:
    """Choose a layer's integers; None where no row tells anything.

    Args:
        name: of the layer.
        weight: ``(K, N)`` float32, the matrix form; columns of one group lie together.
        bias: ``(N,)`` float32 or None. A layer without a bias is not given one.
        groups: G, how many parts rows and columns fall into.
        rows: ``(R, G * K)`` float32, finite: a sample of what it reads.
        params: what they are quantized with.
        granularity: of the weight's scales.
        recall: gives results that were noted before a kill.
        rounding: whether weights are rounded by the output at all.
    """
    parts = _parts(weight, groups)
    inputs = layer_inputs(rows, params, parts)
    if inputs is None:
        return None
    scales = layer_weight_scales(weight, bias, params.scale, granularity)
    axis = None if scales.size == 1 else 1
    nearest = quantize_weight(weight, scales, axis)
    rounded = nearest
    if rounding and len(weight) <= MOST_INPUTS:
        change = recall(name, lambda: _packed(_round(parts, scales, inputs) - nearest))
        rounded = nearest + _unpacked(change, nearest.shape)
    errors = [
        inputs.error(_parts(dequantize_weight(steps, scales, axis), groups))
        for steps in (nearest, rounded)
    ]
    shifts = [inputs.mean(error) for error in errors]
    biases = [None if bias is None else bias + shift.reshape(-1) for shift in shifts]
    corrected = errors[1] if bias is None else errors[1] - shifts[1][:, None]
    record = RebuiltLayer(
        layer=name,
        error_nearest=inputs.size(errors[0]),
        error_rounded=inputs.size(errors[1]),
        error_corrected=inputs.size(corrected),
    )
    return Rebuilt(
        record,
        LayerWeights(nearest, scales, bias),
        LayerWeights(rounded, scales, bias),
        biases[0],
        biases[1],
    )


def _parts(matrix: Floats, groups: int) -> Floats:
    """``(K, N)`` to ``(G, K, N / G)``."""
    return np.ascontiguousarray(matrix.reshape(len(matrix), groups, -1).transpose(1, 0, 2))


def _round(parts: Floats, scales: Floats, inputs: LayerInputs) -> Steps:
    """``(K, N)`` int8; to the nearest where moments are beyond what float32 holds."""
    groups, depth, width = parts.shape
    along = scales.reshape(1, 1, 1) if scales.size == 1 else scales.reshape(groups, 1, width)
    with np.errstate(over="ignore", invalid="ignore"):
        moments = inputs.moments()
    if not np.isfinite(moments).all():
        moments = np.zeros_like(moments)
    steps = round_weight(parts, along, moments)
    return np.ascontiguousarray(steps.transpose(1, 0, 2)).reshape(depth, groups * width)


def _packed(change: Steps) -> str:
    """Changes are mostly 0 and 1, and so take little."""
    return base64.b64encode(zlib.compress(change.tobytes())).decode()


def _unpacked(text: str, shape: tuple[int, ...]) -> Steps:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), np.int8).reshape(shape)
