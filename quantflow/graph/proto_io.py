# pyright: reportUnknownMemberType=false
"""An ONNX file as it was written, before anything is made of it."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from quantflow.artifacts.array_files import shortened
from quantflow.errors import fail
from quantflow.graph.proto_check import check_proto


def load_proto(path: Path) -> onnx.ModelProto:
    """Read a file without its external data.

    Raises:
        QuantflowError: QF201 when it is no ONNX file, or `check_proto` refuses it.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise ValueError("it is no regular file")
        model = onnx.load(path, format="protobuf", load_external_data=False)
    except (OSError, DecodeError, ValueError) as error:
        cause = (
            error.strerror if isinstance(error, OSError) else shortened(str(error).splitlines()[0])
        )
        fail("QF201", f"not a readable ONNX model: {cause}", where=str(path))
    check_proto(model, path)
    return model
