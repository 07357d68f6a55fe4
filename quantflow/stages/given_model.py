"""The model that was given: read as often as needed, and run as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir

from quantflow.errors import fail
from quantflow.graph.from_onnx import read_onnx
from quantflow.graph.from_torch import export_torch
from quantflow.graph.passes.read_qdq import read_qdq
from quantflow.graph.quantized.file_layers import FileQuantization
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.runner import Runner
from quantflow.runtime.torch_runner import TorchRunner
from quantflow.stages.stage import Context
from quantflow.torch_import import import_torch
from quantflow.user_code import load_function


@dataclass(frozen=True, slots=True)
class GivenModel:
    """What the configuration names.

    Attributes:
        name: the factory, or the name of the file.
        read: gives the model before it is canonical, anew every time. Of a quantized file, the
            float model in it, and how its layers are quantized.
        open: makes it ready to run.
    """

    name: str
    read: Callable[[], tuple[ir.Model, FileQuantization | None]]
    open: Callable[[], Runner]


def given_model(context: Context) -> GivenModel:
    """The model of a configuration.

    Raises:
        QuantflowError: QF203 when the factory raises; QF603 when torch cannot be imported.
    """
    config, loaded = context.config.model, context.loaded
    if config.onnx is not None:
        path = loaded.resolve(config.onnx)

        def read() -> tuple[ir.Model, FileQuantization | None]:
            model = read_onnx(path, config.inputs)
            return model, read_qdq(model)

        runtime = context.config.runtime
        open_file = lambda: OnnxRuntimeRunner(read()[0], runtime, optimize=False)  # noqa: E731
        return GivenModel(Path(config.onnx).name, read, open_file)
    assert config.factory is not None
    module = _make(config.factory, loaded.base)
    return GivenModel(
        config.factory,
        lambda: (export_torch(module, config.inputs, config.outputs), None),
        lambda: TorchRunner(module, tuple(config.inputs), tuple(config.outputs)),
    )


def open_module(context: Context, device: str) -> TorchRunner:
    """The factory's module on a device.

    Args:
        context: names the factory.
        device: ``cpu``, ``cuda:N`` or ``npu:N``.

    Raises:
        QuantflowError: QF109 without a factory; what `given_model` and `TorchRunner` raise.
    """
    config = context.config.model
    if config.factory is None:
        fix = "leave --runner out: `quantflow compare` runs the file with onnxruntime"
        fail("QF109", "the model is an ONNX file, not a torch module", where="--runner", fix=fix)
    module = _make(config.factory, context.loaded.base)
    return TorchRunner(module, tuple(config.inputs), tuple(config.outputs), device)


def _make(factory: str, base: Path) -> Any:
    import_torch()
    function = load_function(factory, base)
    try:
        return function()
    except (Exception, SystemExit) as error:
        what = f"the factory raised {type(error).__name__}: {error}"
        fail("QF203", what, where=factory, fix="mend it; it takes no arguments")
