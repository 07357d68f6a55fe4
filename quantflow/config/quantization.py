"""`[quantization]` and `[optimize]`: how layers are quantized."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from quantflow.config.section import Flag, Role, Section

Estimator = Literal["auto", "minmax", "percentile", "kl", "mse"]
Granularity = Literal["per-channel", "per-tensor"]
OptionalLayer = Literal["AveragePool", "MatMul"]


class OverrideConfig(Section):
    """Settings of `quantization` for some layers.

    What is left out stays as it is for all. Estimator, symmetry and percentile are those of the
    tensor that a layer reads, and so of all layers that read it; granularity is the layer's own.

    Attributes:
        pattern: shell-style pattern of group or layer names, such as ``*.layer.0.*``.
        role: all layers of a role.
        estimator, symmetric, percentile, weight_granularity: as in `QuantizationConfig`.
    """

    pattern: str | None = None
    role: Role | None = None
    estimator: Estimator | None = None
    symmetric: Flag | None = None
    percentile: Annotated[float, Field(strict=True, gt=50.0, le=100.0)] | None = None
    weight_granularity: Granularity | None = None

    @model_validator(mode="after")
    def _one_way(self) -> OverrideConfig:
        if (self.pattern is None) == (self.role is None):
            raise ValueError("give exactly one of 'pattern' and 'role'")
        if not self.settings:
            raise ValueError("it sets nothing: give an estimator, say")
        return self

    @property
    def settings(self) -> dict[str, Any]:
        """What it sets, by the name of the key."""
        return self.model_dump(exclude={"pattern", "role"}, exclude_none=True)


class QuantizationConfig(Section):
    """How layers are quantized.

    Attributes:
        estimator: how the range of an activation is chosen.
        symmetric: true for activations with zero point 0.
        percentile: 0-100, the share of values that the percentile estimator keeps inside.
        weight_granularity: one weight scale per output channel, or one per tensor; convolutions
            have one per output channel always.
        optional_layers: kinds of layers that are INT8 only when named here: average pooling, whose
            integer arithmetic is not verified, and MatMul of two variables, for chips that have it.
        overrides: other settings for some layers; the last one that matches a layer counts, key by
            key.
    """

    estimator: Estimator = "auto"
    symmetric: Flag = False
    percentile: float = Field(strict=True, default=99.99, gt=50.0, le=100.0)
    weight_granularity: Granularity = "per-channel"
    optional_layers: tuple[OptionalLayer, ...] = ()
    overrides: tuple[OverrideConfig, ...] = ()


class OptimizeConfig(Section):
    """What is done beyond ranges; each pass is kept only where it lowers the error.

    Attributes:
        shift: true to take the middle off every channel of an activation, and to make up for it in
            the biases of what reads it.
        smoothing: true to divide the channels of activations, and multiply the weights that read
            them, so that both lose little. The scales are folded into constants of the model.
        multiply: true to add a Mul in front of a layer where no constant can take the scale and the
            layer's error falls by half or more.
        rounding: true to round weights by the error of the layer's output, not to the nearest.
        bias_correction: true to let biases take up the mean of the output's error.
    """

    shift: Flag = True
    smoothing: Flag = True
    multiply: Flag = True
    rounding: Flag = True
    bias_correction: Flag = True
