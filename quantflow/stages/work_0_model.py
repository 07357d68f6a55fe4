"""The work of stage 0: the canonical model, its layers, roles and groups."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

from quantflow.config import Config
from quantflow.errors import did_you_mean, fail
from quantflow.graph.bucket import check_dims
from quantflow.graph.canonical import canonicalize
from quantflow.graph.from_onnx import read_onnx
from quantflow.graph.from_torch import export_torch, import_torch
from quantflow.graph.layers import describe_model
from quantflow.graph.model_io import save_model
from quantflow.stages.stage import Context
from quantflow.user_code import load_function


def work(context: Context, folder: Path) -> None:
    """Write `model.onnx` and `model.json`."""
    config = context.config
    context.progress("reading the model", 0, 3)
    model = _origin(context)
    context.progress("canonical form", 1, 3)
    notes = canonicalize(model, config.target.cann)
    for bucket in config.target.buckets:
        check_dims(model, bucket)
    context.progress("layers, roles and groups", 2, 3)
    record = describe_model(
        model, config.target.buckets[0], mask=mask_input(config, model), notes=notes
    )
    save_model(model, folder / "model.onnx")
    record.write(folder / "model.json")
    context.progress("layers, roles and groups", 3, 3)


def _origin(context: Context) -> ir.Model:
    config, loaded = context.config.model, context.loaded
    if config.onnx is not None:
        return read_onnx(loaded.resolve(config.onnx), config.inputs)
    assert config.factory is not None
    import_torch()
    module = load_function(config.factory, loaded.base)()
    return export_torch(module, config.inputs, config.outputs)


def mask_input(config: Config, model: ir.Model) -> str | None:
    """The input that marks padding: the one declared, or one called ``attention_mask``."""
    names = [str(value.name) for value in model.graph.inputs]
    declared = [name for name, spec in config.model.inputs.items() if spec.mask]
    if len(declared) > 1:
        fail("QF103", f"only one input can be the mask, not {declared}", where="model.inputs")
    if declared and declared[0] not in names:
        fail("QF211", f"no input {declared[0]!r}", fix=did_you_mean(declared[0], names))
    spec = config.model.inputs.get("attention_mask")
    default = "attention_mask" in names and (spec is None or spec.mask is not False)
    return declared[0] if declared else ("attention_mask" if default else None)
