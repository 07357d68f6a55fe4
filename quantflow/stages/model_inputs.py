"""The model's inputs as configured, and which of them marks padding."""

from __future__ import annotations

from collections.abc import Sequence

from quantflow.artifacts.model_record import TensorInfo
from quantflow.config import Config, LoadedConfig
from quantflow.errors import did_you_mean, fail
from quantflow.graph.from_onnx import read_onnx


def mask_input(config: Config, names: Sequence[str]) -> str | None:
    """The input that marks padding: the one declared, or one called ``attention_mask``.

    Args:
        config: the section `model` counts.
        names: of the model's inputs.

    Raises:
        QuantflowError: QF103 when several are declared, QF211 when it is no input.
    """
    declared = [name for name, spec in config.model.inputs.items() if spec.mask]
    if len(declared) > 1:
        fail("QF103", f"only one input can be the mask, not {declared}", where="model.inputs")
    if declared and declared[0] not in names:
        fail("QF211", f"no input {declared[0]!r}", fix=did_you_mean(declared[0], names))
    spec = config.model.inputs.get("attention_mask")
    default = "attention_mask" in names and (spec is None or spec.mask is not False)
    return declared[0] if declared else ("attention_mask" if default else None)


def check_mask(config: Config, inputs: Sequence[TensorInfo]) -> None:
    """Raise QF215 for floats that are taken for the mask by their name alone.

    Integers and truth values are 0 at padding; floats may be added to scores, and 0 elsewhere.
    """
    for tensor in inputs:
        spec = config.model.inputs.get(tensor.name)
        told = spec is not None and spec.mask is not None
        if tensor.mask and not told and tensor.dtype.startswith("float"):
            fail(
                "QF215",
                f"input {tensor.name!r} is {tensor.dtype}: 0 at padding, or added to scores?",
                where=f"model.inputs.{tensor.name}",
                fix="say mask = true there if it is 0 at padding and nowhere else, mask = false if "
                "it is added",
            )


def mask_notes(config: Config, inputs: Sequence[TensorInfo]) -> tuple[str, ...]:
    """Names every input that looks like a mask, where none is marked and it is not denied.

    A mask has the shape of the input it is for: one of another shape is added to scores, say.
    """
    if any(tensor.mask for tensor in inputs):
        return ()
    denied = {name for name, spec in config.model.inputs.items() if spec.mask is False}
    return tuple(
        f"input {tensor.name!r} looks like a mask: mark it mask = true"
        for tensor in inputs
        if "mask" in tensor.name.lower() and tensor.name not in denied
        if any(other.shape == tensor.shape for other in inputs if other is not tensor)
    )


def decoding_notes(config: Config) -> tuple[str, ...]:
    """Says of a causal language model, as its task shows, what its one static graph leaves out."""
    if config.task is None or config.task.kind != "perplexity":
        return ()
    return (
        "the model reads whole texts: decoding token by token with a key-value cache is another "
        "graph, which no file or figure here covers",
    )


def configured_inputs(loaded: LoadedConfig) -> tuple[TensorInfo, ...]:
    """The model's inputs before it is prepared: a factory's as configured, else as in the file.

    Raises:
        QuantflowError: QF103 and QF211 as `mask_input`, QF215 as `check_mask`, QF201, QF202 and
            QF211 as `read_onnx`.
    """
    config = loaded.config.model
    if config.onnx is None:
        found = [TensorInfo(name=k, dtype=x.dtype, shape=x.shape) for k, x in config.inputs.items()]
    else:
        model = read_onnx(loaded.resolve(config.onnx), config.inputs)
        found = [
            TensorInfo(
                name=str(value.name),
                dtype=value.dtype.numpy().name if value.dtype else "",
                shape=tuple(x if isinstance(x, int) else str(x.value) for x in value.shape or ()),
            )
            for value in model.graph.inputs
            if not value.is_initializer()
        ]
    mask = mask_input(loaded.config, [tensor.name for tensor in found])
    inputs = tuple(x.model_copy(update={"mask": x.name == mask}) for x in found)
    check_mask(loaded.config, inputs)
    return inputs
