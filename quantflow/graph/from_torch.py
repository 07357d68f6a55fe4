# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
"""A torch module as an onnx_ir model, with nodes named by module path."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.config import InputConfig
from quantflow.errors import fail
from quantflow.graph.edit import all_values
from quantflow.graph.names import rename_outputs, stamp_module_paths

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
        with _silence():
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
            f"torch.onnx.export failed: {_first_lines(error)}",
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


def run_torch(
    module: Any, feeds: Mapping[str, NDArray[Any]], outputs: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """Run a module on arrays in the order of `forward`.

    Raises:
        QuantflowError: QF203 when it raises, or gives another number of tensors than `outputs`.
    """
    torch = import_torch()
    try:
        with torch.no_grad(), _silence():
            result = module(*(torch.from_numpy(array) for array in feeds.values()))
        leaves = torch.utils._pytree.tree_leaves(result)
        arrays = [leaf.numpy() for leaf in leaves if isinstance(leaf, torch.Tensor)]
        return dict(zip(outputs, arrays, strict=True))
    except Exception as error:
        fail("QF203", f"the module does not run: {_first_lines(error)}", where="model.factory")


def import_torch() -> Any:
    """Import torch, unharmed by a torch_npu that has no CANN beneath it (C44).

    Raises:
        QuantflowError: QF603 when torch cannot be imported.
    """
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    try:
        import torch
    except ImportError as error:
        fail("QF603", f"torch cannot be imported: {error}", fix="pip install torch==2.13.0")
    except (OSError, RuntimeError) as error:
        # What torch raises for a backend that does not load, where the environment asks for it.
        fail(
            "QF603",
            f"torch cannot be imported: {error}",
            fix="source CANN's set_env.sh, or set TORCH_DEVICE_BACKEND_AUTOLOAD=0",
        )
    return torch


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


def _first_lines(error: Exception, limit: int = 6) -> str:
    cause = error
    while cause.__cause__ is not None and isinstance(cause.__cause__, Exception):
        cause = cause.__cause__
    lines = [line for line in str(cause).splitlines() if line.strip()]
    return f"{type(cause).__name__}: " + "\n    ".join(lines[:limit])


@contextlib.contextmanager
def _silence() -> Any:
    """Keep what the exporter prints, logs and warns of off the terminal."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
