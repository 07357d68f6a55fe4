"""The file's quantization, brought to the layers of the canonical model."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.given_record import GivenLayer
from quantflow.artifacts.model_record import Layer, ModelRecord
from quantflow.errors import Problem, QuantflowError
from quantflow.graph.edit import constant, nodes_by_name
from quantflow.graph.groups import group_layers
from quantflow.graph.quantized.file_layers import FLOAT, FileLayer, FileQuantization
from quantflow.graph.quantized.weights import WeightScales, by_channel
from quantflow.numerics.quantize import QMAX, QuantParams

NEAR = 0.1
"""How far from an integer, in steps, a weight may be that was one: half precision moves a step of
127 by 0.06."""

TWO_VARIABLES = "a product of two activations, which are not read from quantized files"


def settle(model: ir.Model, record: ModelRecord, quantization: FileQuantization) -> ModelRecord:
    """Let the layers of a record be INT8 where and how they were in the file, and float elsewhere.

    Args:
        model: the canonical model.
        record: as `describe_model` made it.
        quantization: what `read_qdq` found in the file.

    Returns:
        The record with `given`, a `float_reason` for every layer without it, the groups that
        remain, and what the file's quantization says to a person in front of its notes.

    Raises:
        QuantflowError: QF231 when no layer remains INT8.
    """
    nodes, given = nodes_by_name(model), dict[str, GivenLayer]()
    settled = list[Layer]()
    for layer in record.layers:
        found = _given(layer, nodes[layer.node], quantization.layers.get(layer.node, FLOAT))
        if isinstance(found, str):
            layer = layer.model_copy(update={"float_reason": layer.float_reason or found})
        else:
            given[layer.name] = found
        settled.append(layer)
    groups = group_layers(settled)
    if not groups:
        raise QuantflowError(_problems(settled))
    group_of = {name: group.name for group in groups for name in group.layers}
    settled = [x.model_copy(update={"group": group_of.get(x.name, "")}) for x in settled]
    notes = [*quantization.notes, *record.notes]
    for group in groups:
        _agree(group.tensor, [given[name] for name in group.layers], given, notes)
    tensors = {group.tensor for group in groups}
    return record.model_copy(
        update={
            "layers": tuple(settled),
            "groups": tuple(groups),
            "padding": tuple(x for x in record.padding if x.tensor in tensors),
            "notes": tuple(notes),
            "given": tuple(given.values()),
        }
    )


def _given(layer: Layer, node: ir.Node, found: FileLayer | str) -> GivenLayer | str:
    """A layer's quantization, or why it stays float."""
    if layer.float_reason:
        return layer.float_reason
    if not layer.weight:
        return TWO_VARIABLES
    tensor = constant(node.inputs[1])
    if isinstance(found, str) or tensor is None:
        return found if isinstance(found, str) else FLOAT
    rows = by_channel(node, np.asarray(tensor.numpy()))
    scales = _scales(rows, found.weight)
    if scales is None:
        return "its weight is no longer that of the file, multiplied by a factor per channel"
    return GivenLayer(
        layer=layer.name,
        scale_d=found.params.scale,
        offset_d=found.params.zero_point,
        scale_w=_as_dialect(layer, scales, len(rows)),
    )


def _as_dialect(layer: Layer, scales: NDArray[np.float32], channels: int) -> tuple[float, ...]:
    """One scale, or one per output channel as convolutions have it always."""
    if layer.op_type in ("Conv", "ConvTranspose"):
        scales = np.broadcast_to(scales, channels)
    return tuple(float(scale) for scale in scales)


def _scales(rows: NDArray[np.floating], weight: WeightScales) -> NDArray[np.float32] | None:
    """The scales that give the file's integers again.

    They are those of the file, but where a factor was folded into the weight since (that of a
    BatchNormalization, the alpha of a Gemm): then the largest weight of a channel over its integer.

    Args:
        rows: ``(N, ...)`` float weight of the canonical model.
        weight: of the file.
    """
    if len(rows) != len(weight.steps):
        return None
    if _fits(rows, weight.scale, weight.steps):
        return weight.scale
    largest = np.abs(rows).max(axis=1, initial=0).astype(np.float64)
    spread = np.broadcast_to(weight.scale, weight.steps.shape).astype(np.float64)
    used = (weight.steps > 0) & (largest > 0)
    scales = np.where(used, largest / np.maximum(weight.steps, 1), spread).astype(np.float32)
    return scales if _fits(rows, scales, weight.steps) else None


def _fits(rows: NDArray[np.floating], scale: NDArray[np.float32], steps: NDArray[np.int64]) -> bool:
    """Whether the weight is integers times the scales, with the largest that they should have."""
    found = rows.astype(np.float32) / scale[:, None]
    whole = np.rint(found)
    same = np.array_equal(np.abs(whole).max(axis=1, initial=0), steps)
    return same and bool((np.abs(found - whole) < NEAR).all()) and whole.max(initial=0) <= QMAX


def _agree(
    tensor: str, members: list[GivenLayer], given: dict[str, GivenLayer], notes: list[str]
) -> None:
    """Give layers that read one tensor the widest of their ranges, where the file's differ."""
    ranges = {(x.scale_d, x.offset_d) for x in members}
    if len(ranges) < 2:
        return
    scale, offset = max(ranges, key=lambda x: (x[0], -abs(x[1])))
    for member in members:
        update = {"scale_d": scale, "offset_d": offset}
        given[member.layer] = member.model_copy(update=update)
    notes.append(
        f"layers that read {tensor!r} quantize it with {len(ranges)} scales in the file; the "
        f"largest, {scale:.6g}, is taken for all"
    )


def given_params(record: ModelRecord) -> dict[str, QuantParams]:
    """Scale and zero point of every quantized tensor of a model that came quantized, by name."""
    inputs = {layer.name: layer.input for layer in record.layers}
    return {inputs[x.layer]: QuantParams(x.scale_d, x.offset_d) for x in record.given}


def _problems(layers: list[Layer]) -> list[Problem]:
    """Why no layer remains, each reason once."""
    reasons = dict[str, list[str]]()
    for layer in layers:
        reasons.setdefault(layer.float_reason, []).append(layer.name)
    return [
        Problem(
            "QF231",
            f"no layer of the file can be INT8 on Ascend: {reason}",
            where=", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else ""),
            fix="quantize activations per tensor and weights symmetrically to int8, statically, or "
            "give the float model",
        )
        for reason, names in reasons.items()
    ]
