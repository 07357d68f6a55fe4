"""An ONNX file as an onnx_ir model, with every free dimension named."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import onnx_ir as ir

from quantflow.config import InputConfig
from quantflow.errors import Problem, QuantflowError, did_you_mean, fail
from quantflow.graph.bucket import infer_shapes
from quantflow.graph.edit import all_values
from quantflow.graph.model_io import external_tensors, load_model
from quantflow.graph.wiring import check_wiring

_FREE = -1
"""What some exporters write for a free dimension, as they write `?` for its name."""


def read_onnx(path: Path, inputs: Mapping[str, InputConfig]) -> ir.Model:
    """Read an ONNX file and settle its inputs.

    Args:
        path: the file.
        inputs: what the configuration says of them; may be empty. A shape given there replaces the
            file's, so that fixed dimensions can be freed where the graph allows it, and free ones
            be named. Free dimensions without a name become ``batch`` (first axis) or
            ``<input>_<axis>``.

    Raises:
        QuantflowError: QF201 and QF202 as `load_model`, QF211 when `inputs` does not fit the file.
    """
    model = load_model(path)
    _check_functions(model, path)
    check_wiring(model, path)
    values = {str(v.name): v for v in model.graph.inputs if not v.is_initializer()}
    if not values:
        fail("QF201", "the model has no inputs", where=str(path), fix="export it with its inputs")
    problems = [
        Problem(
            "QF211",
            f"the model has no input {name!r}",
            where=f"model.inputs.{name}",
            fix=did_you_mean(name, values),
        )
        for name in inputs
        if name not in values
    ]
    before = {name: value.shape for name, value in values.items()}
    for name, value in values.items():
        problems += _settle_shape(value, inputs.get(name))
    if problems:
        raise QuantflowError(problems)
    if any(value.shape != before[name] for name, value in values.items()):
        _infer_anew(model)
    return model


def _check_functions(model: ir.Model, path: Path) -> None:
    """Raise QF201 for a function that calls itself, which no inlining would ever end."""
    called = {
        key: [node.op_identifier() for node in function.all_nodes()]
        for key, function in model.functions.items()
    }
    try:
        TopologicalSorter(called).prepare()
    except CycleError as error:
        names = " calls ".join(repr(name) for _, name, _ in reversed(error.args[1]))
        fail("QF201", f"a function calls itself: {names}", where=str(path), fix="mend the export")


def _infer_anew(model: ir.Model) -> None:
    """Infer all shapes from those of the inputs: what the file says is of its own input shapes."""
    for value in all_values(model.graph):
        if value.producer() is not None:
            value.shape = None
    infer_shapes(model)


def _settle_shape(value: ir.Value, spec: InputConfig | None) -> list[Problem]:
    where = f"model.inputs.{value.name}"
    if value.shape is None or value.dtype is None:
        return [
            Problem(
                "QF211",
                f"input {value.name!r} has no type or rank in the file",
                where=where,
                fix="export the model with typed inputs",
            )
        ]
    given = spec is not None and "dtype" in spec.model_fields_set
    if spec is not None and given and spec.dtype != value.dtype.numpy().name:
        return [
            Problem(
                "QF211",
                f"input {value.name!r} is {value.dtype.numpy().name}, the "
                f"configuration says {spec.dtype}",
                where=f"{where}.dtype",
            )
        ]
    if spec is None or not spec.shape:
        sizes = [x for x in value.shape if isinstance(x, int) and x < 1 and x != _FREE]
        if sizes:
            what = f"input {value.name!r} has a dimension of {sizes[0]} in the file"
            fix = "give its shape under [model.inputs], a name for a free dimension"
            return [Problem("QF211", what, where=where, fix=fix)]
        value.shape = ir.Shape([_dim_name(value, axis) for axis in range(len(value.shape))])
        return []
    if len(spec.shape) != len(value.shape):
        return [
            Problem(
                "QF211",
                f"input {value.name!r} has {len(value.shape)} dimensions, the "
                f"configuration names {len(spec.shape)}",
                where=f"{where}.shape",
            )
        ]
    value.shape = ir.Shape(list(spec.shape))
    return []


def _dim_name(value: ir.Value, axis: int) -> int | str:
    assert value.shape is not None
    dim = value.shape[axis]
    if isinstance(dim, int) and dim != _FREE:
        return dim
    name = "" if isinstance(dim, int) else str(dim.value or "").strip("?")
    return name or ("batch" if axis == 0 else f"{value.name}_{axis}")


def external_files(path: Path) -> list[Path]:
    """The external data files that a model names, sorted."""
    found = {Path(tensor.path) for tensor in external_tensors(load_model(path))}
    return sorted(found - {path})
