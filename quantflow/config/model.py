"""`[model]`: the float model."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from quantflow.config.section import DimName, Flag, FunctionName, Section, Size, not_empty


class InputConfig(Section):
    """One input of the model.

    Attributes:
        dtype: numpy name of the element type; of an ONNX file's input, that of the file is taken
            where it is not given.
        shape: one entry a dimension; a number is fixed, a name is free and given by the bucket. The
            first dimension is the batch. Empty, which only an ONNX file's input can be: as in the
            file.
        mask: true for the input that is 0 where a position is padding. An input called
            ``attention_mask`` is one without being told.
    """

    dtype: Literal["float32", "float16", "int64", "int32", "uint8", "bool"] = "float32"
    shape: Annotated[tuple[Size | DimName, ...], AfterValidator(not_empty)] = ()
    mask: Flag | None = None


class ModelConfig(Section):
    """The float model: a torch factory or an ONNX file.

    Attributes:
        factory: ``module:function`` that returns a ``torch.nn.Module`` in eval mode.
        onnx: path of an ONNX file.
        depends: further files that decide what the factory returns (weights, say); a change in one
            of them makes the run directory stale.
        inputs: in the order of the module's forward; required with `factory`.
        outputs: names of the outputs, in order; required with `factory`.
    """

    factory: FunctionName | None = None
    onnx: str | None = None
    depends: tuple[str, ...] = ()
    inputs: dict[str, InputConfig] = Field(default={})
    outputs: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one_origin(self) -> ModelConfig:
        if (self.factory is None) == (self.onnx is None):
            raise ValueError("give exactly one of 'factory' and 'onnx'")
        if self.factory is not None and (lacking := self._lacking()):
            raise ValueError("; ".join(lacking))
        names = [*self.inputs, *self.outputs]
        if not all(names) or len(set(names)) < len(names):
            raise ValueError("names of inputs and outputs must differ from each other")
        return self

    def _lacking(self) -> list[str]:
        """What an ONNX file would say, but a torch factory does not."""
        lacking: list[str] = []
        if not (self.inputs and self.outputs):
            lacking.append("a torch factory needs [model.inputs.NAME] tables and 'outputs'")
        if bare := [name for name, spec in self.inputs.items() if not spec.shape]:
            lacking.append(f"a torch factory needs a 'shape' for every input, also for {bare}")
        return lacking
