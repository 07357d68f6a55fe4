"""What the optimization did (`25_optimize/optimize.json`)."""

from __future__ import annotations

from typing import Literal

from quantflow.artifacts.record import Record

PassName = Literal["shift", "smoothing", "rounding", "bias correction"]

How = Literal["folded", "multiplied"]
"""`folded` into constants, or `multiplied` by a Mul of its own in front of the layers."""


class ShiftedTensor(Record):
    """A tensor whose channels were centred.

    Attributes:
        tensor, group: what is quantized.
        span_before, span_after: what its range has to hold, from the least to the greatest value of
            any channel, 0 included.
    """

    tensor: str
    group: str
    span_before: float
    span_after: float


class SmoothedTensor(Record):
    """A tensor whose channels were brought together.

    Attributes:
        tensor, group: what is quantized.
        how: where its scale went.
        scale: which candidate it was.
        error_before, error_after: relative squared error of its layers' outputs on sampled rows,
            weights and activations quantized.
    """

    tensor: str
    group: str
    how: How
    scale: str
    error_before: float
    error_after: float


class RebuiltLayer(Record):
    """A layer whose integers were chosen by its output.

    Attributes:
        layer: its name.
        error_nearest: relative squared error of its output on sampled rows, weights rounded to the
            nearest.
        error_rounded: the same with weights rounded by the output.
        error_corrected: and with the bias corrected; equal where it is not.
    """

    layer: str
    error_nearest: float
    error_rounded: float
    error_corrected: float


class Pass(Record):
    """What one pass came to.

    Attributes:
        name: of the pass.
        kept: whether its result is in force: it made the error smaller.
        error_before, error_after: mean over held-out samples of the metric's distance from the
            float model, everything INT8, without and with the pass; smaller is better.
    """

    name: PassName
    kept: bool
    error_before: float
    error_after: float


class OptimizeRecord(Record):
    """`25_optimize/optimize.json`.

    Attributes:
        passes: in order; none where all are switched off.
        metric: what they were measured by.
        samples: held-out samples that they were measured on.
        float_difference: largest difference that the transforms make to the float model's outputs,
            relative to their largest magnitude; 0 without transforms.
        shifted: tensors whose channels were centred, in graph order.
        tensors: that were smoothed, in graph order.
        balanced: products of queries and keys whose weights were brought to reach equally far.
        layers: that were rebuilt, in graph order.
        multiplied_elements: elements that the added Mul nodes multiply, of one sample in the first
            bucket.
        notes: what a person should know.
    """

    passes: tuple[Pass, ...]
    samples: int
    metric: str = ""
    float_difference: float = 0.0
    shifted: tuple[ShiftedTensor, ...] = ()
    tensors: tuple[SmoothedTensor, ...] = ()
    balanced: tuple[str, ...] = ()
    layers: tuple[RebuiltLayer, ...] = ()
    multiplied_elements: int = 0
    notes: tuple[str, ...] = ()
