# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
"""A torch module as an onnx_ir model, with nodes named by module path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from quantflow.config import InputConfig
from quantflow.errors import fail
from quantflow.graph.edit import all_values
from quantflow.graph.names import rename_outputs, stamp_module_paths
from quantflow.quiet_torch import first_lines, silence
from quantflow.torch_import import import_torch

if TYPE_CHECKING:
    import torch

EXPORT_OPSET = 18
"""What torch's exporter writes at least; asked for less, it leaves 18 without a word."""


def export_torch(
    module: Any, inputs: Mapping[str, InputConfig], outputs: Sequence[str]
) -> ir.Model:
    """Export a module in eval mode with free dimensions, opset 18.

    Args:
        module: a ``torch.nn.Module``.
        inputs: names, types and shapes, in the order of ``forward``.
        outputs: names to give the outputs, in order.

    Raises:
        QuantflowError: QF203 when `module` is none, or export fails.
    """
    torch = import_torch()
    if not isinstance(module, torch.nn.Module):
        fail(
            "QF203",
            f"the factory returned a {type(module).__name__}, not a torch.nn.Module",
            where="model.factory",
        )
    module.eval()
    sizes = _example_sizes(inputs)
    example = tuple(_example(torch, spec, sizes) for spec in inputs.values())
    shapes = tuple(
        {i: torch.export.Dim.DYNAMIC for i, dim in enumerate(spec.shape) if isinstance(dim, str)}
        for spec in inputs.values()
    )
    try:
        with silence():
            program = torch.onnx.export(
                module,
                example,
                dynamo=True,
                dynamic_shapes=shapes,
                opset_version=EXPORT_OPSET,
                input_names=list(inputs),
                optimize=True,
                verify=False,
            )
    except Exception as error:
        fail(
            "QF203",
            f"torch.onnx.export failed: {first_lines(error)}",
            where="model.factory",
            fix="if a dimension cannot vary, give its size as a number in [model.inputs]",
        )
    assert program is not None
    model = program.model
    if len(model.graph.outputs) != len(outputs):
        fail(
            "QF203",
            f"the module has {len(model.graph.outputs)} outputs, "
            f"the configuration names {len(outputs)}",
            where="model.outputs",
        )
    stamp_module_paths(model)
    rename_outputs(model, outputs)
    _name_dims(model, inputs)
    _check_inputs(model, inputs)
    return model


def _example_sizes(inputs: Mapping[str, InputConfig]) -> dict[str, int]:
    """A different small size for every free dimension, so that none is mistaken for another."""
    names = {dim: None for spec in inputs.values() for dim in spec.shape if isinstance(dim, str)}
    return {name: 2 + 7 * position for position, name in enumerate(names)}


def _example(torch: Any, spec: InputConfig, sizes: Mapping[str, int]) -> torch.Tensor:
    shape = [dim if isinstance(dim, int) else sizes[dim] for dim in spec.shape]
    dtype = getattr(torch, spec.dtype)
    if spec.dtype.startswith("float"):
        generator = torch.Generator().manual_seed(0)
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.ones(shape, dtype=dtype)


def _name_dims(model: ir.Model, inputs: Mapping[str, InputConfig]) -> None:
    """Give free dimensions the names of the configuration, throughout the graph."""
    names = dict[str, str]()
    for value, spec in zip(model.graph.inputs, inputs.values(), strict=True):
        for dim, wanted in zip(value.shape or (), spec.shape, strict=True):
            if isinstance(dim, ir.SymbolicDim) and isinstance(wanted, str):
                names.setdefault(str(dim.value), wanted)
    for value in all_values(model.graph):
        if value.shape is not None:
            value.shape = ir.Shape(
                [
                    dim if isinstance(dim, int) else names.get(str(dim.value), dim.value)
                    for dim in value.shape
                ]
            )


def _check_inputs(model: ir.Model, inputs: Mapping[str, InputConfig]) -> None:
    names = [value.name for value in model.graph.inputs]
    if names != list(inputs):
        fail(
            "QF211",
            f"the exported model reads {names}, the configuration names {list(inputs)}",
            where="model.inputs",
            fix="name the inputs in the order of forward()",
        )
    for value, spec in zip(model.graph.inputs, inputs.values(), strict=True):
        for index, (dim, wanted) in enumerate(zip(value.shape or (), spec.shape, strict=True)):
            if isinstance(dim, int) and isinstance(wanted, str):
                fail(
                    "QF203",
                    f"the module fixes dimension {wanted!r} (axis {index}) at {dim}",
                    where=f"model.inputs.{value.name}.shape",
                    fix=f"give {dim} instead of {wanted!r} in the shape",
                )
