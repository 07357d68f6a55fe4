# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
"""Reading and writing ONNX files: deterministic bytes, external data kept inside its folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from quantflow.artifacts.atomic import write_atomically
from quantflow.errors import fail
from quantflow.graph.quiet import quiet

EXTERNAL_DATA_THRESHOLD = 1_900_000_000
"""Weights of more bytes than this go to a file of their own: protobuf ends at 2 GB."""


def load_model(path: Path) -> ir.Model:
    """Read an ONNX file; weights in external files stay on disk and are mapped when used.

    Raises:
        QuantflowError: QF201 when the file is not a readable ONNX model, QF202 when external data
            would be read from outside the model's folder.
    """
    try:
        with quiet("onnx_ir"):
            model = ir.load(path)
    except (OSError, DecodeError, ValueError, ir.serde.SerdeError) as error:
        cause = error.__cause__ or error
        fail("QF201", f"not a readable ONNX model: {cause}", where=str(path))
    for tensor in external_tensors(model):
        _check_location(tensor, path)
    return model


def external_tensors(model: ir.Model) -> Iterator[ir.ExternalTensor]:
    """Every tensor that lies in another file: of initializers, attributes, If bodies, functions."""
    bodies = (model.graph, *model.functions.values())
    graphs = [model.graph, *(graph for body in bodies for graph in body.subgraphs())]
    tensors = [value.const_value for graph in graphs for value in graph.initializers.values()]
    for node in (node for body in bodies for node in body.all_nodes()):
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref():
                tensors.append(attribute.as_tensor())
            if attribute.type == ir.AttributeType.TENSORS and not attribute.is_ref():
                tensors += attribute.as_tensors()
    return (tensor for tensor in tensors if isinstance(tensor, ir.ExternalTensor))


def external_names(model: ir.Model) -> list[str]:
    """Names of the files that hold external tensors, relative to the model's folder, sorted."""
    return sorted({str(tensor.location) for tensor in external_tensors(model)})


def _check_location(tensor: ir.ExternalTensor, path: Path) -> None:
    location = PurePosixPath(str(tensor.location))
    target = (path.parent / location).resolve()
    if ".." in location.parts or not target.is_relative_to(path.parent.resolve()):
        fail(
            "QF202",
            f"external data of {tensor.name!r} lies outside the model's folder",
            where=f"{path}: {location}",
            fix="move the data file beside the model",
        )
    end = (tensor.offset or 0) + max(tensor.length or 0, tensor.nbytes)
    if not target.is_file() or target.stat().st_size < end:
        fail(
            "QF201",
            f"external data file {location} is {'too short' if target.is_file() else 'missing'}",
            where=str(path),
            fix="copy it beside the model",
        )


def model_bytes(model: ir.Model) -> bytes:
    """Serialize deterministically, weights included."""
    proto = ir.to_proto(model)
    folder = next((tensor.base_dir for tensor in external_tensors(model)), None)
    if folder is not None:
        onnx.load_external_data_for_model(proto, str(folder))
    return proto.SerializeToString(deterministic=True)


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
