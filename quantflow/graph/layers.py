"""The layers of a canonical model: what they read and write, and which of them can be INT8."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import onnx_ir as ir

from quantflow.artifacts.model_record import (
    Layer,
    ModelRecord,
    PaddedTensor,
    TensorInfo,
)
from quantflow.config import OptionalLayer, Role
from quantflow.errors import Problem, QuantflowError, fail
from quantflow.graph.bucket import bucket_model
from quantflow.graph.edit import constant, nodes_by_name, opset
from quantflow.graph.groups import group_layers
from quantflow.graph.kinds.kind import LayerKind
from quantflow.graph.kinds.table import kind_of
from quantflow.graph.padding import map_padding, padding_notes
from quantflow.graph.roles import role_of_layers
from quantflow.graph.window import window_of


def describe_model(
    model: ir.Model,
    bucket: Mapping[str, int],
    *,
    mask: str | None,
    notes: list[str],
    optional: Collection[OptionalLayer] = (),
) -> ModelRecord:
    """Find layers, roles, groups and how padding maps to their inputs.

    Args:
        model: a canonical model.
        bucket: sizes that MACs are counted at.
        mask: name of the input that marks padding, if there is one.
        notes: carried into the record.
        optional: kinds of layers that are float unless they are named here.

    Raises:
        QuantflowError: QF210 when the model has no layer that can be INT8, QF211 when an input is a
            scalar.
    """
    for value in model.graph.inputs:
        if value.shape is not None and not value.shape.rank():
            what = f"input {value.name!r} is a scalar, its first axis must be the batch"
            fail("QF211", what, where=f"model.inputs.{value.name}")
    found = [(node, kind) for node in model.graph if (kind := kind_of(node, optional)) is not None]
    roles = role_of_layers(model, [node for node, _ in found])
    static = nodes_by_name(bucket_model(model, bucket))
    batch = _batch_size(model, bucket)
    layers = [
        _describe(node, kind, static.get(str(node.name)), roles[str(node.name)], batch)
        for node, kind in found
    ]
    groups = group_layers(layers)
    if not groups:
        raise QuantflowError(_obstacles(layers))
    group_of = {name: group.name for group in groups for name in group.layers}
    layers = [x.model_copy(update={"group": group_of.get(x.name, "")}) for x in layers]
    record = ModelRecord(
        opset=opset(model),
        inputs=tuple(_tensor_info(value, mask) for value in model.graph.inputs),
        outputs=tuple(_tensor_info(value, None) for value in model.graph.outputs),
        layers=tuple(layers),
        groups=tuple(groups),
        padding=(),
        notes=tuple(notes),
    )
    padding, said = _padding(model, record.tensors, mask)
    return record.model_copy(update={"padding": padding, "notes": (*record.notes, *said)})


def _obstacles(layers: Sequence[Layer]) -> list[Problem]:
    """Why no layer can be INT8: a QF210 for each reason, with the first layers that have it."""
    if not layers:
        what = "the model has no MatMul, Gemm or convolution with a constant weight"
        fix = "there is nothing to quantize: give the float model to atc, which runs it in fp16"
        return [Problem("QF210", what, where="the model's main graph", fix=fix)]
    reasons = dict[str, list[str]]()
    for layer in layers:
        reasons.setdefault(layer.float_reason, []).append(layer.name)
    fix = "rewrite the layer, or give the float model to atc, which runs it in fp16"
    return [
        Problem("QF210", f"the model has no INT8 layer: {reason}", ", ".join(names[:5]), fix)
        for reason, names in reasons.items()
    ]


def _describe(
    node: ir.Node, kind: LayerKind, static: ir.Node | None, role: Role, batch: int
) -> Layer:
    operands = kind.operands(node)
    add = operands.bias_node
    return Layer(
        name=str(node.name),
        node=str(node.name),
        op_type=node.op_type,
        role=role,
        group="",
        input=str(operands.activation.name),
        weight=_name(operands.weight) or "",
        bias=_name(operands.bias),
        bias_node=str(add.name) if add is not None else None,
        output=str(operands.output.name),
        macs=kind.macs(static) // batch if static is not None else 0,
        float_reason=_float_reason(kind, static),
        window=window_of(static) if kind.spatial and static is not None else None,
        second_input=_name(operands.second) or "",
    )


def _float_reason(kind: LayerKind, static: ir.Node | None) -> str:
    weight = kind.operands(static).weight if static is not None else None
    if weight is not None and weight.shape is not None and 0 in weight.shape.dims:
        return "its weight holds no numbers"
    if static is None or any(constant(value) is not None for value in _activations(kind, static)):
        return "its input is constant once the shapes are"
    return kind.float_reason(static)


def _activations(kind: LayerKind, node: ir.Node) -> list[ir.Value]:
    operands = kind.operands(node)
    return [value for value in (operands.activation, operands.second) if value is not None]


def _name(value: ir.Value | None) -> str | None:
    return str(value.name) if value is not None else None


def _batch_size(model: ir.Model, bucket: Mapping[str, int]) -> int:
    shape = model.graph.inputs[0].shape
    first = shape[0] if shape is not None and shape.rank() else 1
    return first if isinstance(first, int) else bucket[str(first.value)]


def _tensor_info(value: ir.Value, mask: str | None) -> TensorInfo:
    assert value.dtype is not None
    shape = tuple(d if isinstance(d, int) else str(d.value) for d in value.shape or ())
    return TensorInfo(
        name=str(value.name),
        dtype=value.dtype.numpy().name,
        shape=shape,
        mask=value.name == mask,
    )


def _padding(
    model: ir.Model, tensors: Sequence[str], mask: str | None
) -> tuple[tuple[PaddedTensor, ...], list[str]]:
    """How padding is recognised in every tensor, and notes on those where it is not."""
    if mask is None:
        return (), []
    layouts, unmapped = map_padding(model, mask, tensors)
    padding = tuple(PaddedTensor(tensor=t, layout=layouts[t]) for t in tensors)
    return padding, padding_notes(unmapped)
