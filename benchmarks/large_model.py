# pyright: reportUnknownMemberType=false
"""A model beyond protobuf's 2 GB through the stages: peak memory beside that of plain inference.

A multilayer perceptron of nine 8192 x 8192 layers, 2.4 GB of random weights in a file of its own,
is prepared, calibrated, exported and compared; every stage is a process, and its peak is what the
kernel says of it: all resident pages, those of mapped files included. The yardstick is a process
that loads the same file into onnxruntime and runs one batch. "Anonymous" memory is what the kernel
cannot drop, as it could a file's pages. About 12 GB of disk are needed, and given back.

    python benchmarks/large_model.py [--layers N] [--json FILE] [--directory DIR]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from _harness import Figure, finish, parser
from onnx import TensorProto, helper, numpy_helper

WIDTH = 8192
BATCH = 8
CONFIG = f"""
[run]
directory = "run"
[model]
onnx = "model.onnx"
[runtime]
batch = {BATCH}
threads = 2
[quantization]
estimator = "minmax"
[set]
samples = 16
heldout_samples = 16
evaluation_samples = 16
[set.candidates]
kind = "npz"
path = "candidates.npz"
[target]
buckets = [{{ batch = {BATCH} }}]
"""
STAGES = ("prepare", "build-set", "calibrate", "export-onnx", "compare")
PLAIN = f"""
import numpy as np, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 2
session = onnxruntime.InferenceSession("model.onnx", options)
session.run(None, {{"x": np.ones(({BATCH}, {WIDTH}), np.float32)}})
"""
TARGET = 1.1
"""Peak of a stage over that of plain inference."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process took: peak of its resident and its anonymous memory in bytes, seconds."""

    resident: int
    anonymous: int
    seconds: float


def main() -> int:
    """Print the figures; returns 1 when a target is missed."""
    options = parser(__doc__.partition("\n")[0] if __doc__ else "")
    options.add_argument("--layers", type=int, default=9, help="layers of the model")
    options.add_argument("--directory", type=Path, default="/var/tmp", help="where to work")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.directory) as name:
        folder = Path(name)
        size = write_project(folder, chosen.layers)
        plain = measure([sys.executable, "-c", PLAIN], folder)
        figures = [
            Figure("weights, GB", size / 1e9),
            Figure("plain inference: peak, GB", plain.resident / 1e9),
            Figure("plain inference: peak over weights", plain.resident / size),
        ]
        for stage in STAGES:
            used = measure([sys.executable, "-m", "quantflow", stage, "-q"], folder)
            figures += [
                Figure(
                    f"{stage}: peak over plain inference's",
                    used.resident / plain.resident,
                    TARGET,
                    "at most",
                ),
                Figure(f"{stage}: anonymous peak over weights", used.anonymous / size),
                Figure(f"{stage}: seconds", used.seconds),
            ]
    return finish("A model beyond 2 GB", figures, chosen.json)


def write_project(folder: Path, layers: int) -> int:
    """Write model, samples and configuration; returns the bytes of the weights.

    One weight comes as a Gemm's transB, one through a Transpose, as exporters write them.
    """
    rng = np.random.default_rng(0)
    nodes, constants = list[onnx.NodeProto](), list[TensorProto]()
    value = "x"
    with (folder / "model.onnx.data").open("wb") as stream:
        for i in range(layers):
            weight = rng.standard_normal((WIDTH, WIDTH), np.float32)
            weight *= np.float32((2 / WIDTH) ** 0.5)
            constants.append(_external(f"w{i}", stream.tell(), weight.nbytes))
            stream.write(weight.data)
            bias = rng.standard_normal(WIDTH, np.float32) / 10
            constants.append(numpy_helper.from_array(bias, f"b{i}"))
            nodes += _layer(i, value)
            value = f"r{i}"
    nodes[-1].output[0] = "y"
    graph = helper.make_graph(
        nodes,
        "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", WIDTH])],
        constants,
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), folder / "model.onnx")
    samples = rng.standard_normal((200, WIDTH), np.float32)
    np.savez(folder / "candidates.npz", x=samples)
    (folder / "quantflow.toml").write_text(CONFIG)
    return layers * WIDTH * WIDTH * 4


def _external(name: str, offset: int, length: int) -> TensorProto:
    tensor = TensorProto(
        name=name,
        data_type=TensorProto.FLOAT,
        dims=[WIDTH, WIDTH],
        data_location=TensorProto.EXTERNAL,
    )
    entries = {"location": "model.onnx.data", "offset": offset, "length": length}
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def _layer(i: int, value: str) -> list[onnx.NodeProto]:
    relu = helper.make_node("Relu", [f"a{i}"], [f"r{i}"], name=f"relu{i}")
    if i == 1:
        inputs = [value, f"w{i}", f"b{i}"]
        return [helper.make_node("Gemm", inputs, [f"a{i}"], name=f"dense{i}", transB=1), relu]
    weight, nodes = f"w{i}", list[onnx.NodeProto]()
    if i == 2:
        nodes.append(helper.make_node("Transpose", [weight], ["t"], name="turn", perm=[1, 0]))
        weight = "t"
    return [
        *nodes,
        helper.make_node("MatMul", [value, weight], [f"m{i}"], name=f"dense{i}"),
        helper.make_node("Add", [f"m{i}", f"b{i}"], [f"a{i}"], name=f"bias{i}"),
        relu,
    ]


def measure(command: list[str], folder: Path) -> Usage:
    """Run a command in a folder and watch its memory.

    Raises:
        RuntimeError: when it fails, but for a gate (exit 1).
    """
    start, anonymous = time.perf_counter(), 0
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    while True:
        found, status, usage = os.wait4(process.pid, os.WNOHANG)
        if found:
            break
        anonymous = max(anonymous, _anonymous(process.pid))
        time.sleep(0.02)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return Usage(usage.ru_maxrss * 1024, anonymous, time.perf_counter() - start)


def _anonymous(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    lines = dict(line.split(":", 1) for line in status.splitlines())
    return int(lines.get("RssAnon", "0 kB").split()[0]) * 1024


if __name__ == "__main__":
    sys.exit(main())
