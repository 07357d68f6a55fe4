# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
"""Reading and writing ONNX files: deterministic bytes, external data kept inside its folder."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from quantflow.artifacts.array_files import shortened
from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.weight_file import SMALL_BYTES, refer_to, weights_of, write_weights
from quantflow.errors import fail
from quantflow.graph.mapped_file import read_mapped
from quantflow.graph.proto_check import check_proto
from quantflow.graph.proto_io import load_proto
from quantflow.graph.quiet import quiet

EXTERNAL_DATA_THRESHOLD = 2**28
"""Weights of more bytes than this go to a file of their own, where they are mapped and need not be
held in memory."""

ONE_FILE_LIMIT = 1_900_000_000
"""Weights of more bytes cannot be in the model's own file: protobuf ends at 2 GB."""


def load_model(path: Path) -> ir.Model:
    """Read an ONNX file; weights in external files, or in a large one, are mapped when used.

    Raises:
        QuantflowError: QF201 when the file is not a readable ONNX model, QF202 when external data
            would be read from outside the model's folder.
    """
    try:
        with quiet("onnx_ir"):
            model = _read(path)
    except (OSError, DecodeError, ValueError, ir.serde.SerdeError) as error:
        cause = error.__cause__ or error
        what = f"not a readable ONNX model: {shortened(str(cause))}"
        fail("QF201", what, where=str(path))
    for tensor in external_tensors(model):
        _check_location(tensor, path)
    return model


def _read(path: Path) -> ir.Model:
    if path.stat().st_size <= EXTERNAL_DATA_THRESHOLD:
        proto = load_proto(path)
    else:
        # What was loaded before goes first: models are full of cycles, that wait for the collector.
        gc.collect()
        proto = read_mapped(path)
        check_proto(proto, path)
    model = ir.from_proto(proto)
    ir.external_data.set_base_dir(model.graph, path.parent)
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


def _check_location(tensor: ir.ExternalTensor, path: Path) -> None:
    location = PurePosixPath(str(tensor.location))
    try:
        target = (path.parent / location).resolve()
        target.exists()  # which says what a later look would stumble over
    except (OSError, RuntimeError) as error:  # a path that is too long, a loop of links
        what = f"external data of {tensor.name!r} lies nowhere: {shortened(str(error))}"
        fail("QF201", what, where=str(path), fix="export the model again")
    if ".." in location.parts or not target.is_relative_to(path.parent.resolve()):
        fail(
            "QF202",
            f"external data of {tensor.name!r} lies outside the model's folder",
            where=f"{path}: {location}",
            fix="move the data file beside the model",
        )
    if target.is_file() and target.stat().st_nlink > 1:
        fail(
            "QF202",
            f"external data of {tensor.name!r} is a hard link, whose other end may lie anywhere",
            where=f"{path}: {location}",
            fix="put a copy of the file in its place",
        )
    if tensor.length not in (None, tensor.nbytes):
        what = f"{tensor.name!r} takes {tensor.nbytes} bytes and is given {tensor.length}"
        fail("QF201", what, where=f"{path}: {location}", fix="export the model again")
    end = (tensor.offset or 0) + tensor.nbytes
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
    return sum(tensor.nbytes for tensor in weights_of(model))


def save_model(model: ir.Model, path: Path, *, limit: int | None = None) -> None:
    """Write a model; weights of more than `limit` bytes go to ``<name>.data`` beside it.

    Args:
        model: its weights are read one at a time where they go to a file of their own.
        path: of the model; both files are written in full or not at all.
        limit: `EXTERNAL_DATA_THRESHOLD`, unless it is given.
    """
    if weight_bytes(model) <= (EXTERNAL_DATA_THRESHOLD if limit is None else limit):
        write_atomically(path, model_bytes(model))
        return
    data = path.with_name(f"{path.name}.data")
    large = (tensor for tensor in weights_of(model) if tensor.nbytes > SMALL_BYTES)
    places = write_weights(large, data)
    proto = ir.to_proto(refer_to(model, places, data.name, path.parent))
    write_atomically(path, proto.SerializeToString(deterministic=True))
