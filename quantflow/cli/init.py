"""`quantflow init`: a complete, commented configuration to edit."""

from __future__ import annotations

import json as json_format
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quantflow.cli.options import DEFAULT_CONFIG, ConfigPath
from quantflow.cli.output import say

if TYPE_CHECKING:
    from quantflow.config import InputConfig

Factory = Annotated[
    str | None,
    typer.Option("--factory", metavar="MODULE:FUNCTION", help="Returns the torch module."),
]
OnnxPath = Annotated[
    Path | None,
    typer.Option("--onnx", metavar="PATH", help="An ONNX file; its inputs are filled in."),
]
Overwrite = Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")]

EXAMPLE_SIZE = 128
"""Size of a free dimension in the first bucket, but for the batch, which is 1."""


def init(
    config: ConfigPath = DEFAULT_CONFIG,
    factory: Factory = None,
    onnx: OnnxPath = None,
    force: Overwrite = False,
) -> None:
    """Write a commented configuration that shows every key.

    \b
    Examples:
      quantflow init --onnx model.onnx
      quantflow init --factory my_model:build
    """
    from quantflow.errors import fail

    if factory and onnx:
        fail("QF103", "give --factory or --onnx, not both", where="quantflow init")
    if config.exists() and not force:
        fail("QF108", f"{config} is there already", where=str(config), fix="--force replaces it")
    inputs = _onnx_inputs(onnx) if onnx else _example_inputs()
    text = render_config(factory or "my_model:build", _beside(onnx, config), inputs)
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(text, encoding="utf-8")
    say(f"wrote {config} | next: edit its [set.candidates], then quantflow doctor")


def render_config(factory: str, onnx: str | None, inputs: dict[str, InputConfig]) -> str:
    """The text of a configuration.

    Args:
        factory: ``module:function``, used where `onnx` is None.
        onnx: path of the model, relative to the configuration.
        inputs: of the model, in order.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("quantflow.cli", "."),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters |= {"toml": _toml, "key": _key}
    free = [dim for spec in inputs.values() for dim in spec.shape if isinstance(dim, str)]
    batch = next((spec.shape[0] for spec in inputs.values()), "batch")
    return environment.get_template("quantflow.toml.j2").render(
        factory=factory,
        onnx=onnx,
        inputs=inputs,
        bucket={dim: 1 if dim == batch else EXAMPLE_SIZE for dim in free},
        text="input_ids" in inputs,
        mask="attention_mask" in inputs,
    )


def _toml(value: object) -> str:
    """A string, number or sequence of them as TOML, which writes these as JSON does."""
    return json_format.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    """A key as TOML, quoted only where it must be."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _beside(path: Path | None, config: Path) -> str | None:
    """The path as the configuration's directory sees it."""
    if path is None:
        return None
    base = config.resolve().parent
    full = path.resolve()
    return full.relative_to(base).as_posix() if full.is_relative_to(base) else full.as_posix()


def _example_inputs() -> dict[str, InputConfig]:
    from quantflow.config import InputConfig

    ids = InputConfig(dtype="int64", shape=("batch", "length"))
    return {"input_ids": ids, "attention_mask": ids}


def _onnx_inputs(path: Path) -> dict[str, InputConfig]:
    """What the configuration can say of an ONNX file's inputs.

    Raises:
        QuantflowError: QF201, QF202, QF211 as `read_onnx`.
    """
    from pydantic import ValidationError

    from quantflow.config import InputConfig
    from quantflow.errors import fail
    from quantflow.graph.from_onnx import read_onnx

    found: dict[str, InputConfig] = {}
    for value in read_onnx(path, {}).graph.inputs:
        if value.is_initializer() or value.shape is None or value.dtype is None:
            continue
        shape = [x if isinstance(x, int) else str(x.value) for x in value.shape]
        fields = {"dtype": value.dtype.numpy().name, "shape": shape}
        try:
            found[str(value.name)] = InputConfig.model_validate(fields)
        except ValidationError:
            what = f"input {value.name!r} is {fields['dtype']} {tuple(shape)}"
            fail("QF211", what, where=str(path), fix="a scalar or such a type is not supported")
    return found
