"""The layers of a canonical model: every MatMul, Gemm or Conv with a constant weight."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import onnx_ir as ir

from quantflow.artifacts.model_record import Group, Layer, ModelRecord, PaddedTensor, TensorInfo
from quantflow.errors import fail
from quantflow.graph.bucket import bucket_model
from quantflow.graph.edit import constant, nodes_by_name, opset
from quantflow.graph.groups import group_layers
from quantflow.graph.names import LAYER_OPS
from quantflow.graph.padding import map_padding
from quantflow.graph.roles import role_of_layers

QUANTIZABLE_OPS = ("MatMul", "Gemm")


def describe_model(
    model: ir.Model, bucket: Mapping[str, int], *, mask: str | None, notes: list[str]
) -> ModelRecord:
    """Find layers, roles, groups and how padding maps to their inputs.

    Args:
        model: a canonical model.
        bucket: sizes that MACs are counted at.
        mask: name of the input that marks padding, if there is one.
        notes: carried into the record.

    Raises:
        QuantflowError: QF210 when the model has no layer that can be INT8, QF211 when an input is a
            scalar.
    """
    for value in model.graph.inputs:
        if value.shape is not None and not value.shape.rank():
            what = f"input {value.name!r} is a scalar, its first axis must be the batch"
            fail("QF211", what, where=f"model.inputs.{value.name}")
    nodes = [node for node in model.graph if is_layer(node)]
    roles = role_of_layers(model, nodes)
    static = nodes_by_name(bucket_model(model, bucket))
    batch = _batch_size(model, bucket)
    layers = [
        _describe(node, static.get(str(node.name)), batch).model_copy(
            update={"role": roles[str(node.name)]}
        )
        for node in nodes
    ]
    groups = group_layers(layers)
    if not groups:
        fail("QF210", "the model has no MatMul or Gemm with a constant weight that can be INT8")
    group_of = {name: group.name for group in groups for name in group.layers}
    layers = [x.model_copy(update={"group": group_of.get(x.name, "")}) for x in layers]
    return ModelRecord(
        opset=opset(model),
        inputs=tuple(_tensor_info(value, mask) for value in model.graph.inputs),
        outputs=tuple(_tensor_info(value, None) for value in model.graph.outputs),
        layers=tuple(layers),
        groups=tuple(groups),
        padding=_padding(model, groups, mask),
        notes=tuple(notes),
    )


def is_layer(node: ir.Node) -> bool:
    """Whether a node multiplies by a constant weight."""
    if node.op_type not in LAYER_OPS:
        return False
    weights = [constant(value) for value in node.inputs[:2]]
    return weights[1] is not None or (node.op_type == "MatMul" and weights[0] is not None)


def _describe(node: ir.Node, static: ir.Node | None, batch: int) -> Layer:
    left = constant(node.inputs[1]) is None
    weight, activation = (node.inputs[0], node.inputs[1]) if left else node.inputs[:2][::-1]
    assert weight is not None and activation is not None
    bias, bias_node = _bias_of(node)
    output = bias_node.outputs[0] if bias_node is not None else node.outputs[0]
    return Layer(
        name=str(node.name),
        node=str(node.name),
        op_type=node.op_type,
        role="other",
        group="",
        input=str(activation.name),
        weight=str(weight.name),
        bias=bias,
        bias_node=bias_node.name if bias_node is not None else None,
        output=str(output.name),
        macs=_macs(static, batch) if static is not None else 0,
        float_reason=_float_reason(node, static, left=left),
    )


def _float_reason(node: ir.Node, static: ir.Node | None, *, left: bool) -> str:
    if node.op_type not in QUANTIZABLE_OPS:
        return f"{node.op_type} layers stay in fp16 in this version"
    if left:
        return "the constant is the left operand of the MatMul"
    if static is None or constant(static.inputs[0]) is not None:
        return "its input is constant once the shapes are"
    weight = constant(node.inputs[1])
    assert weight is not None
    if weight.shape.rank() != 2:
        return "the weight is not 2-D"
    if node.op_type == "Gemm":
        plain = all(node.attributes.get_float(name, 1.0) == 1.0 for name in ("alpha", "beta"))
        if (
            not plain
            or node.attributes.get_int("transA", 0)
            or node.attributes.get_int("transB", 0)
        ):
            return "the Gemm's alpha or beta scales a value that is not constant"
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        tensor = constant(bias)
        if bias is not None and (tensor is None or tensor.shape.rank() != 1):
            return "the Gemm's bias is not a 1-D constant"
    return ""


def _bias_of(node: ir.Node) -> tuple[str | None, ir.Node | None]:
    """The layer's constant bias and, for a MatMul, the Add that applies it."""
    if node.op_type != "MatMul":
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        return (str(bias.name) if constant(bias) is not None and bias else None), None
    product = node.outputs[0]
    uses = list(product.uses())
    if len(uses) != 1 or product.is_graph_output():
        return None, None
    add = uses[0].node
    if add.op_type != "Add":
        return None, None
    other = add.inputs[1 - uses[0].idx]
    tensor = constant(other)
    if tensor is None or tensor.shape.rank() != 1 or other is None:
        return None, None
    weight = constant(node.inputs[1])
    if weight is None or weight.shape[-1] != tensor.shape[0]:
        return None, None
    return str(other.name), add


def _macs(node: ir.Node, batch: int) -> int:
    """Multiply-accumulates of one sample: output elements times the reduced length.

    For a ConvTranspose, input elements times the kernel that each of them is multiplied by.
    """
    left, right = constant(node.inputs[0]), constant(node.inputs[1])
    weight = right if right is not None else left
    source = node.inputs[0] if node.op_type == "ConvTranspose" else node.outputs[0]
    if weight is None or source is None or source.shape is None or not source.shape.is_static():
        return 0
    dims = weight.shape.numpy()
    if node.op_type in ("Conv", "ConvTranspose"):
        reduced = prod(dims[1:])
    else:
        reduced = dims[-1] if right is None else dims[-2:][0]
    return prod(source.shape.numpy()) * reduced // batch


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


def _padding(model: ir.Model, groups: list[Group], mask: str | None) -> tuple[PaddedTensor, ...]:
    if mask is None:
        return ()
    tensors = [group.tensor for group in groups]
    layouts = map_padding(model, mask, tensors)
    return tuple(PaddedTensor(tensor=t, layout=layouts[t]) for t in tensors)
