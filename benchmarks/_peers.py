"""Other quantizers on the same float model and the same calibration samples.

Each runs in a process of its own, for some keep every activation of every sample: what a process
holds is limited to `MOST_MEMORY` of the machine's, and asking for more is a failure of the peer.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import onnxruntime
from numpy.typing import NDArray

Feeds = dict[str, NDArray[Any]]
Peer = Callable[[Path, Sequence[Feeds], Path, bool], None]
"""Reads a static float model, calibrates on batches and writes a QDQ model.

The last argument tells whether it is a transformer."""


def _onnxruntime(method: str) -> Peer:
    """Static quantization: QDQ, int8, one scale per channel.

    Of all operators only the products, which is kind to it: by default it quantizes the sums as
    well, the attention mask among them, and MiniLM falls to a cosine of 0.36.
    """

    def quantize(model: Path, batches: Sequence[Feeds], output: Path, _: bool) -> None:
        from onnxruntime import quantization  # noqa: TID251

        class Reader(quantization.CalibrationDataReader):
            def __init__(self) -> None:
                self._left: Iterator[Feeds] = iter(batches)

            def get_next(self) -> Any:
                return next(self._left, None)

        ort: Any = quantization  # partly untyped
        ort.quantize_static(
            str(model),
            str(output),
            Reader(),
            quant_format=ort.QuantFormat.QDQ,
            per_channel=True,
            op_types_to_quantize=["MatMul", "Gemm", "Conv"],
            activation_type=ort.QuantType.QInt8,
            weight_type=ort.QuantType.QInt8,
            calibrate_method=getattr(ort.CalibrationMethod, method),
        )

    return quantize


def _nncf(model: Path, batches: Sequence[Feeds], output: Path, transformer: bool) -> None:
    """Its post-training quantization: smoothing for transformers, fast bias correction."""
    os.environ["NNCF_CI"] = "1"  # switches its telemetry off
    import nncf
    import onnx

    files: Any = onnx  # partly untyped
    found: Any = nncf.quantize(
        files.load(model),
        nncf.Dataset(list(batches)),
        model_type=nncf.ModelType.TRANSFORMER if transformer else None,
        subset_size=len(batches),
        fast_bias_correction=True,
    )
    files.save(found, output, save_as_external_data=True)


PEERS: dict[str, Peer] = {
    "onnxruntime, MinMax": _onnxruntime("MinMax"),
    "onnxruntime, Percentile": _onnxruntime("Percentile"),
    "NNCF": _nncf,
}
"""By the name in the table."""

MOST_MEMORY = 0.7
"""Share of the machine's memory that a peer may take."""


def quantize(
    peer: str, model: Path, batches: Sequence[Feeds], output: Path, *, transformer: bool
) -> None:
    """Let a peer write its QDQ model.

    Args:
        peer: one of `PEERS`.
        model: the static float model.
        batches: of the calibration samples.
        output: where the QDQ model goes.
        transformer: whether it is one.

    Raises:
        RuntimeError: says what went wrong.
    """
    context = get_context("spawn")
    told, telling = context.Pipe(duplex=False)
    arguments = telling, peer, model, batches, output, transformer
    process = context.Process(target=_quantize, args=arguments)
    process.start()
    telling.close()
    problem: str | None = None
    with suppress(EOFError):  # it ended without a word
        problem = told.recv()
    process.join()
    if problem is None:
        problem = f"its process ended with {process.exitcode}"
    if problem:
        raise RuntimeError(problem)


def _quantize(
    telling: Any, peer: str, model: Path, batches: Sequence[Feeds], output: Path, transformer: bool
) -> None:
    most = int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * MOST_MEMORY)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    try:
        PEERS[peer](model, batches, output, transformer)
    except Exception as error:  # whatever another tool raises is its result
        telling.send(f"{type(error).__name__}: {error}")
    else:
        telling.send("")


class FileRunner:
    """A QDQ file as onnxruntime runs it node by node.

    Nothing is fused: on processors without VNNI fused products of uint8 and int8 saturate, and the
    option against that fails on files that share a zero point.

    Args:
        path: of the model.
    """

    def __init__(self, path: Path) -> None:
        ort: Any = onnxruntime  # untyped
        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        self._session: Any = ort.InferenceSession(path, options)
        self.outputs = tuple(str(x.name) for x in self._session.get_outputs())

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The outputs by name."""
        return dict(zip(self.outputs, self._session.run(None, dict(feeds)), strict=True))

    def close(self) -> None:
        """Give the model up."""
        self._session = None
