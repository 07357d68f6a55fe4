"""A model in the form that an onnxruntime session is made of.

onnxruntime maps weights that lie in files, and copies whatever it is handed in memory. So weights
that lie in files are referred to, whichever folder they lie in, and where many lie in memory they
are first written to a file, one at a time.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from quantflow.artifacts.scratch import scratch_folder
from quantflow.artifacts.weight_file import SMALL_BYTES, refer_to, weights_of, write_weights

IN_MEMORY_BYTES = 2**28
"""Weights of more bytes are not serialized from memory, where they would be held several times."""

LARGE_BYTES = 1_900_000_000
"""A model with more bytes of weights, or a part of one, is large: its weights are read as they lie
in their files. onnxruntime else keeps a copy that is packed for its matrix products, which saves
time where a batch has few rows."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class SessionModel:
    """What a session is made of; files written for it go when it does.

    Attributes:
        content: the serialized model.
        folder: where references to files start from; empty when there are none.
        size: bytes of the weights.
        large: whether the weights are to be read where they lie.
    """

    content: bytes
    folder: str
    size: int
    large: bool


def session_model(model: ir.Model) -> SessionModel:
    """Serialize a model for a session.

    Args:
        model: not changed.
    """
    weights = list(weights_of(model))
    held = [tensor for tensor in weights if not isinstance(tensor, ir.ExternalTensor)]
    size = sum(tensor.nbytes for tensor in weights)
    if sum(tensor.nbytes for tensor in held) <= IN_MEMORY_BYTES:
        return _serialize(model, size)
    scratch = Path(tempfile.mkdtemp(prefix="quantflow-", dir=scratch_folder())).resolve()
    try:
        large = (tensor for tensor in held if tensor.nbytes > SMALL_BYTES)
        places = write_weights(large, scratch / "weights")
        prepared = _serialize(refer_to(model, places, "weights", scratch), size)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    weakref.finalize(prepared, shutil.rmtree, scratch, ignore_errors=True)
    return prepared


def _serialize(model: ir.Model, size: int) -> SessionModel:
    filed = [tensor for tensor in weights_of(model) if isinstance(tensor, ir.ExternalTensor)]
    files = {Path(tensor.path).resolve() for tensor in filed}
    copy = _from_root(model) if files else model
    return SessionModel(
        content=ir.to_proto(copy).SerializeToString(deterministic=True),
        folder=next((path.anchor for path in files), ""),
        size=size,
        large=max([size, *(path.stat().st_size for path in files)]) > LARGE_BYTES,
    )


def _from_root(model: ir.Model) -> ir.Model:
    """A copy whose references start from the root of the file system, as all files do."""
    copy = model.clone()
    for graph in copy.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor):
                path = Path(tensor.path).resolve()
                value.const_value = ir.ExternalTensor(
                    str(path.relative_to(path.anchor)),
                    tensor.offset,
                    tensor.length,
                    tensor.dtype,
                    shape=tensor.shape,
                    name=tensor.name,
                    base_dir=path.anchor,
                )
    return copy
