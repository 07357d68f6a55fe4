"""Other quantizers on the same float model and the same calibration samples."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.graph.model_io import load_model

Feeds = dict[str, NDArray[Any]]
Peer = Callable[[Path, Sequence[Feeds], Path, bool], None]
"""Reads a static float model, calibrates on batches and writes a QDQ model.

The last argument tells whether it is a transformer."""


def _onnxruntime(method: str) -> Peer:
    """Static quantization as its documentation does it: QDQ, int8, one scale per channel."""

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


def quantized_by(
    peer: Peer, model: Path, batches: Sequence[Feeds], output: Path, *, transformer: bool
) -> ir.Model:
    """What a peer makes of a model.

    Args:
        peer: who.
        model: a static float32 model.
        batches: inputs of the model, the calibration samples.
        output: where its file goes.
        transformer: whether the model is one.
    """
    peer(model, batches, output, transformer)
    return load_model(output)
