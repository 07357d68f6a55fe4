"""The work of stage 0: the canonical model, its layers, roles and groups."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

from quantflow.errors import fail
from quantflow.graph.bucket import free_dims
from quantflow.graph.bucket_rules import check_buckets
from quantflow.graph.canonical import canonicalize
from quantflow.graph.from_onnx import read_onnx
from quantflow.graph.from_torch import export_torch, import_torch
from quantflow.graph.layers import describe_model
from quantflow.graph.model_io import load_model, save_model
from quantflow.graph.passes.read_qdq import read_qdq
from quantflow.graph.quantized.settle import settle
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.stages.model_inputs import decoding_notes, mask_input, mask_notes
from quantflow.stages.stage import Context
from quantflow.user_code import load_function


def work(context: Context, folder: Path) -> None:
    """Write `model.onnx` and `model.json`."""
    config = context.config
    context.progress("reading the model", 0, 3)
    model = _origin(context)
    quantized = read_qdq(model)
    context.progress("canonical form", 1, 3)
    notes = canonicalize(model, config.target.cann)
    check_buckets(free_dims(model), config.target)
    context.progress("layers, roles and groups", 2, 3)
    mask = mask_input(config, [str(value.name) for value in model.graph.inputs])
    optional = config.quantization.optional_layers
    record = describe_model(
        model, config.target.buckets[0], mask=mask, notes=notes, optional=optional
    )
    if quantized is not None:
        record = settle(model, record, quantized)
    origin = config.model.factory or Path(config.model.onnx or "").name
    save_model(model, folder / "model.onnx")
    del model  # its weights may be in memory; those of the file need not be
    # Whatever onnxruntime would refuse is refused here, before any long work.
    OnnxRuntimeRunner(load_model(folder / "model.onnx"), config.runtime, optimize=False)
    said = (*record.notes, *mask_notes(config, record.inputs), *decoding_notes(config))
    record.model_copy(update={"origin": origin, "notes": said}).write(folder / "model.json")
    context.progress("layers, roles and groups", 3, 3)


def _origin(context: Context) -> ir.Model:
    config, loaded = context.config.model, context.loaded
    if config.onnx is not None:
        return read_onnx(loaded.resolve(config.onnx), config.inputs)
    assert config.factory is not None
    import_torch()
    factory = load_function(config.factory, loaded.base)
    try:
        module = factory()
    except (Exception, SystemExit) as error:
        what = f"the factory raised {type(error).__name__}: {error}"
        fail("QF203", what, where=config.factory, fix="mend it; it takes no arguments")
    return export_torch(module, config.inputs, config.outputs)
