"""A bucket: the canonical graph with its free dimensions fixed and what follows folded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import onnx_ir as ir
from onnx_ir.passes.common import (
    LiftConstantsToInitializersPass,
    RemoveUnusedNodesPass,
    ShapeInferencePass,
    TopologicalSortPass,
)
from onnxscript.optimizer import fold_constants_ir

from quantflow.errors import Problem, QuantflowError
from quantflow.graph.edit import all_values, constant, copy_model
from quantflow.graph.names import LAYER_OPS
from quantflow.graph.passes.resolve_auto_pad import resolve_auto_pad
from quantflow.graph.quiet import quiet

FOLD_LIMIT_BYTES = 2**28
"""Largest constant that folding may read or make."""


def bucket_model(model: ir.Model, dims: Mapping[str, int]) -> ir.Model:
    """A static copy of `model`; node names and the names of layer tensors are kept.

    Args:
        model: the canonical model.
        dims: size of every free dimension of the inputs.

    Raises:
        QuantflowError: QF206 for a free dimension that `dims` does not fix.
    """
    check_dims(model, dims)
    copy = copy_model(model)
    inputs = set(copy.graph.inputs)
    for value in all_values(copy.graph):
        if value in inputs and value.shape is not None:
            value.shape = ir.Shape([_fixed(dim, dims) for dim in value.shape])
        elif value.producer() is not None:
            value.shape = None
    tensors = _layer_inputs(copy)
    fold(copy)
    _restore(copy, tensors)
    infer_shapes(copy)
    resolve_auto_pad(copy)
    return copy


def _layer_inputs(model: ir.Model) -> dict[tuple[str, int], str]:
    """The activations that every layer reads, by the layer's node name and number of the input."""
    return {
        (str(node.name), index): str(value.name)
        for node in model.graph
        if node.op_type in LAYER_OPS or node.op_type == "AveragePool"
        for index, value in enumerate(node.inputs[:2])
        if value is not None and constant(value) is None
    }


def _restore(model: ir.Model, tensors: Mapping[tuple[str, int], str]) -> None:
    """Give layer inputs back the names they lost, as a Reshape does that leaves the shape alone."""
    restored = dict[str, ir.Value]()
    for node in list(model.graph):
        for index, value in enumerate(node.inputs[:2]):
            name = tensors.get((str(node.name), index))
            if name is None or value is None or constant(value) is not None or value.name == name:
                continue
            if name not in restored:
                identity = ir.node("Identity", [value], name=f"{name}/Identity")
                identity.outputs[0].name = name
                identity.outputs[0].type = value.type
                model.graph.insert_before(node, identity)
                restored[name] = identity.outputs[0]
            node.replace_input_with(index, restored[name])


def fold(model: ir.Model) -> None:
    """Fold constants in place, lift them to initializers, drop what nothing needs."""
    with quiet("onnxscript.optimizer._constant_folding", "onnx_ir"):
        for _ in range(2):
            fold_constants_ir(
                model,
                onnx_shape_inference=True,
                input_size_limit=FOLD_LIMIT_BYTES,
                output_size_limit=FOLD_LIMIT_BYTES,
            )
            RemoveUnusedNodesPass()(model)
        lift_constants(model)
        RemoveUnusedNodesPass()(model)
        TopologicalSortPass()(model)


def lift_constants(model: ir.Model) -> None:
    """Make an initializer of every Constant node, in place."""
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)


def infer_shapes(model: ir.Model) -> None:
    """Infer types and shapes in place; where that fails, they stay as they are."""
    with quiet("onnx_ir"):
        ShapeInferencePass(data_prop=True)(model)


def bucket_name(dims: Mapping[str, int]) -> str:
    """Name of a bucket, such as ``batch1_length128``; fit for file names."""
    parts = (re.sub(r"\W+", "-", name, flags=re.ASCII) + str(size) for name, size in dims.items())
    return "_".join(parts).lstrip("-") or "static"


def _fixed(dim: int | ir.SymbolicDim, dims: Mapping[str, int]) -> int:
    return dim if isinstance(dim, int) else dims[str(dim.value)]


def free_dims(model: ir.Model) -> list[str]:
    """Names of the free dimensions of the inputs, in order of appearance."""
    names: dict[str, None] = {}
    for value in model.graph.inputs:
        for dim in value.shape or ():
            if not isinstance(dim, int):
                names[str(dim.value)] = None
    return list(names)


def check_dims(model: ir.Model, dims: Mapping[str, int]) -> None:
    """Raise QF206 for every free dimension of the inputs that `dims` does not fix."""
    if problems := unfixed(free_dims(model), dims):
        raise QuantflowError(problems)


def unfixed(names: Iterable[str], dims: Mapping[str, int]) -> list[Problem]:
    """A QF206 for every free dimension that `dims` does not fix."""
    return [
        Problem(
            "QF206",
            f"the bucket does not fix dimension {name!r}",
            where="target.buckets",
            fix=f"add {name} = <size> to every bucket",
        )
        for name in names
        if name not in dims
    ]
