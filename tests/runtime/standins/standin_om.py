"""Files that pass for an .om: the header, then JSON that says what the stand-ins compute."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

HEADER = 256


def write_om(path: Path, **content: Any) -> Path:
    """Write a file.

    Args:
        path: of the file.
        content: `inputs` and `outputs` as lists of [name, dtype, shape]; `onnx`, a model that is
            run, or nothing for ``2 * x`` of every input, the last of them first; `sleep_ms`.
    """
    body = json.dumps(content).encode()
    header = bytearray(HEADER)
    struct.pack_into("<4sII", header, 0, b"IMOD", HEADER, 0x10000001)
    struct.pack_into("<I", header, 156, 1)
    struct.pack_into("<Q", header, 184, len(body))
    path.write_bytes(bytes(header) + body)
    return path


def read_om(path: str) -> dict[str, Any]:
    return json.loads(Path(path).read_bytes()[HEADER:])


def compute(content: dict[str, Any], arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs as a device would leave them, in the described types."""
    dtypes = [dtype for _, dtype, _ in content["outputs"]]
    if "onnx" in content:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.x64quantprecision", "1")
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            content["onnx"], options, providers=["CPUExecutionProvider"]
        )
        names = [name for name, _, _ in content["inputs"]]
        values = session.run(None, dict(zip(names, arrays, strict=True)))
    else:
        values = [2 * array for array in reversed(arrays)]
    with np.errstate(over="ignore"):
        return [np.asarray(x).astype(dtype) for x, dtype in zip(values, dtypes, strict=True)]
