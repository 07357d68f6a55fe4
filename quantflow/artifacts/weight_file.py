# pyright: reportUnknownMemberType=false
"""Weights that need not be in memory: mapped where they lie in a file, computed when asked for.

A model of many gigabytes passes through here one tensor at a time. What a pass makes of a large
weight is a recipe, and is followed once the result is written.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.atomic import naming

DERIVED_BYTES = 2**20
"""Tensors of more bytes are derived anew whenever they are read, smaller ones once and for all."""

SMALL_BYTES = 1024
"""Tensors of no more bytes stay in the model: shapes and axes, which shape inference reads."""

_ALIGNMENT = 4096


def array_of(tensor: ir.TensorProtocol) -> NDArray[Any]:
    """A tensor's values; those that lie in a file are mapped for as long as the array lives."""
    if isinstance(tensor, ir.ExternalTensor):
        # `numpy` keeps its map for the life of the tensor, and with it all that was ever read.
        tensor = ir.ExternalTensor(
            tensor.location,
            tensor.offset,
            tensor.length,
            tensor.dtype,
            shape=tensor.shape,
            name=tensor.name or "",
            base_dir=tensor.base_dir,
        )
    return tensor.numpy()


def derived(
    name: str, make: Callable[[], NDArray[Any]], dtype: ir.DataType, shape: Sequence[int]
) -> ir.TensorProtocol:
    """A tensor that is computed from others.

    Args:
        name: of the tensor.
        make: computes it; what it reads must not change.
        dtype, shape: of what `make` gives.
    """
    if prod(shape) * dtype.itemsize <= DERIVED_BYTES:
        return ir.tensor(make(), dtype=dtype, name=name)
    return ir.LazyTensor(
        lambda: ir.tensor(make(), dtype=dtype), dtype=dtype, shape=ir.Shape(shape), name=name
    )


def weights_of(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    """The tensors of all initializers, those of If bodies included; one that is shared once."""
    seen = set[int]()
    for graph in model.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                yield tensor


def write_weights(tensors: Iterable[ir.TensorProtocol], path: Path) -> dict[int, tuple[int, int]]:
    """Write tensors to one file, one at a time; the file is there in full or not at all.

    Returns:
        Offset and length in bytes, by the id of the tensor.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    places = dict[int, tuple[int, int]]()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with naming(path), os.fdopen(handle, "wb") as stream:
            for tensor in tensors:
                stream.write(bytes(-stream.tell() % _ALIGNMENT))
                offset = stream.tell()
                _write(tensor, stream)
                places[id(tensor)] = offset, stream.tell() - offset
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return places


def _write(tensor: ir.TensorProtocol, stream: BinaryIO) -> None:
    if isinstance(tensor, ir.ExternalTensor | ir.LazyTensor | ir.Tensor):
        tensor.tofile(stream)
    else:
        stream.write(tensor.tobytes())


def refer_to(
    model: ir.Model, places: Mapping[int, tuple[int, int]], location: str, folder: Path
) -> ir.Model:
    """A copy of a model whose written tensors are references into their file.

    Args:
        model: not changed.
        places: as `write_weights` returns them.
        location: path of the file, relative to `folder`.
        folder: where the references start from.
    """
    copy = model.clone()
    for graph in copy.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is not None and id(tensor) in places:
                value.const_value = _reference(tensor, *places[id(tensor)], location, folder)
    return copy


def _reference(
    tensor: ir.TensorProtocol, offset: int, length: int, location: str, folder: Path
) -> ir.ExternalTensor:
    shape = tensor.shape
    assert isinstance(shape, ir.Shape)
    return ir.ExternalTensor(
        location,
        offset,
        length,
        tensor.dtype,
        shape=shape,
        name=tensor.name or "",
        base_dir=str(folder),
    )
