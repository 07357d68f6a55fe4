# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
"""Running ONNX models with onnxruntime. The only module that imports it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from quantflow.config import RuntimeConfig
from quantflow.errors import fail
from quantflow.runtime.runner import Feeds

PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "cann": "CANNExecutionProvider",
}


class OnnxRuntimeRunner:
    """An onnxruntime session.

    Args:
        model: serialized model, or the path of one (needed when its weights lie in external files).
        config: provider and threads.
        optimize: whether onnxruntime may fuse and fold; off, every node runs as written.
        device: number of the GPU or NPU.

    Raises:
        QuantflowError: QF601 when the provider is missing, QF205 when the model does not load.
    """

    def __init__(
        self,
        model: bytes | Path,
        config: RuntimeConfig | None = None,
        *,
        optimize: bool = True,
        device: int = 0,
    ) -> None:
        config = config or RuntimeConfig()
        options = ort.SessionOptions()
        options.intra_op_num_threads = config.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Without it, u8 x s8 products saturate on processors with AVX2 and no VNNI.
        options.add_session_config_entry("session.x64quantprecision", "1")
        if not optimize:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        provider = PROVIDERS[config.provider]
        if provider not in ort.get_available_providers():
            fail(
                "QF601",
                f"onnxruntime has no {provider}",
                where="runtime.provider",
                fix='install the onnxruntime build for it, or set runtime.provider = "cpu"',
            )
        source = str(model) if isinstance(model, Path) else model
        cpu = "CPUExecutionProvider"
        providers = [cpu] if provider == cpu else [(provider, {"device_id": device}), cpu]
        try:
            self._session = ort.InferenceSession(source, options, providers=providers)
        except Exception as error:
            fail(
                "QF205",
                f"onnxruntime cannot load the model: {error}",
                where=source if isinstance(source, str) else "a model in memory",
            )
        self._outputs = tuple(str(value.name) for value in self._session.get_outputs())

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the values that `run` returns."""
        return self._outputs

    def run(self, feeds: Feeds) -> dict[str, NDArray[Any]]:
        """Run once; returns every output by name."""
        values = self._session.run(None, dict(feeds))
        return {name: np.asarray(value) for name, value in zip(self._outputs, values, strict=True)}


def available_providers() -> list[str]:
    """Execution providers of the installed onnxruntime, the preferred one first."""
    return list(ort.get_available_providers())


def build_identity() -> str:
    """Version of onnxruntime: part of what decides bytes of results."""
    return f"onnxruntime {ort.__version__}"
