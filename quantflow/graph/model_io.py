# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
"""Reading and writing ONNX files: deterministic bytes, external data kept inside its folder."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import onnx_ir as ir
from google.protobuf.message import DecodeError

from quantflow.artifacts.atomic import write_atomically
from quantflow.errors import fail

EXTERNAL_DATA_THRESHOLD = 1_900_000_000
"""Weights of more bytes than this go to a file of their own: protobuf ends at 2 GB."""


def load_model(path: Path) -> ir.Model:
    """Read an ONNX file; weights in external files stay on disk and are mapped when used.

    Raises:
        QuantflowError: QF201 when the file is not a readable ONNX model, QF202 when external data
            would be read from outside the model's folder.
    """
    try:
        model = ir.load(path)
    except (OSError, DecodeError, ValueError, ir.serde.SerdeError) as error:
        cause = error.__cause__ or error
        fail("QF201", f"not a readable ONNX model: {cause}", where=str(path))
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if isinstance(tensor, ir.ExternalTensor):
            _check_location(tensor, path)
    return model


def _check_location(tensor: ir.ExternalTensor, path: Path) -> None:
    location = PurePosixPath(str(tensor.location))
    target = (path.parent / location).resolve()
    if location.is_absolute() or not target.is_relative_to(path.parent.resolve()):
        fail(
            "QF202",
            f"external data of {tensor.name!r} lies outside the model's folder",
            where=f"{path}: {location}",
            fix="move the data file beside the model",
        )
    if not target.is_file():
        fail(
            "QF201",
            f"external data file {location} is missing",
            where=str(path),
            fix="copy it beside the model",
        )


def model_bytes(model: ir.Model) -> bytes:
    """Serialize deterministically, weights included."""
    return ir.to_proto(model).SerializeToString(deterministic=True)


def weight_bytes(model: ir.Model) -> int:
    """Bytes that the initializers take."""
    tensors = (value.const_value for value in model.graph.initializers.values())
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


def save_model(model: ir.Model, path: Path) -> None:
    """Write a model; beyond 1.9 GB its weights go to ``<name>.data`` beside it."""
    if weight_bytes(model) > EXTERNAL_DATA_THRESHOLD:
        ir.save(model, path, external_data=f"{path.name}.data")
    else:
        write_atomically(path, model_bytes(model))
