"""What stage 2 writes: ranges, the clipping report and where values are not finite."""

from __future__ import annotations

from typing import Literal

from quantflow.artifacts.record import Record
from quantflow.numerics.quantize import QuantParams, activation_params

Split = Literal["calibration", "heldout"]


class TensorRange(Record):
    """The range that a tensor is quantized with.

    Attributes:
        tensor: name of the activation.
        low, high: bounds, in units of the tensor.
        estimator: which estimator gave them; with `auto`, the one it chose.
        symmetric: whether the zero point is 0.
        reason: why `auto` chose it, or empty.
        overridden: the settings that an override of the configuration gave, or empty.
    """

    tensor: str
    low: float
    high: float
    estimator: str
    symmetric: bool
    reason: str = ""
    overridden: str = ""

    @property
    def params(self) -> QuantParams:
        """Scale and zero point of the range."""
        return activation_params(self.low, self.high, symmetric=self.symmetric)


class NonFinite(Record):
    """NaN or Inf seen in a tensor.

    Attributes:
        tensor: where.
        split: on which samples.
        nan, inf: number of elements.
        samples: ids of the samples, at most ten.
    """

    tensor: str
    split: Split
    nan: int
    inf: int
    samples: tuple[str, ...]


class RangesRecord(Record):
    """`20_ranges/ranges.json`: the range of every quantizable tensor, in graph order."""

    ranges: tuple[TensorRange, ...]
    nonfinite: tuple[NonFinite, ...]

    def of(self, tensor: str) -> TensorRange:
        """The range of `tensor`; KeyError when it has none."""
        for entry in self.ranges:
            if entry.tensor == tensor:
                return entry
        raise KeyError(tensor)


class ClippingRow(Record):
    """What one candidate range does to one tensor on one split.

    Attributes:
        tensor, group: what is quantized.
        split: whose values.
        candidate: estimator that gave the bounds.
        chosen: whether this is the range in force.
        low, high: bounds after the levels are laid out (zero included), units of the tensor.
        absmax: largest magnitude seen.
        clipping_ratio: absmax / largest bound magnitude; above 1 something is clipped.
        clipped_low_fraction, clipped_high_fraction: shares of values beyond each bound, 0-1.
        energy_lost_fraction: share of sum(x^2) that clipping removes, 0-1.
        sqnr_db: signal to quantization noise, rounding and clipping, from the histogram.
        near_threshold_fraction: share of values within 10% of a bound, inside it, 0-1.
        worst_samples: ids of the samples that reach furthest, worst first, at most three.
        flag: why a person should look, or empty.
    """

    tensor: str
    group: str
    split: Split
    candidate: str
    chosen: bool
    low: float
    high: float
    absmax: float
    clipping_ratio: float
    clipped_low_fraction: float
    clipped_high_fraction: float
    energy_lost_fraction: float
    sqnr_db: float
    near_threshold_fraction: float
    worst_samples: tuple[str, ...]
    flag: str


class ClippingReport(Record):
    """`20_ranges/clipping.json`: every tensor, split and candidate."""

    rows: tuple[ClippingRow, ...]


class Fp16Tensor(Record):
    """How one float tensor fares in fp16.

    Attributes:
        tensor, node, op_type: the value and the node that writes it (empty for an input).
        absmax: largest finite magnitude, units of the tensor.
        overflow: whether a magnitude exceeds 65504 or is not finite.
        subnormal_fraction: share of values that are non-zero and below 2^-14, 0-1.
        flushed_fraction: share of values that are non-zero and become zero in fp16, 0-1.
        finite: whether all its values are; an attention mask of minus infinity is not.
    """

    tensor: str
    node: str
    op_type: str
    absmax: float
    overflow: bool
    subnormal_fraction: float
    flushed_fraction: float
    finite: bool = True


class Island(Record):
    """A node that must stay in fp32.

    Attributes:
        node, op_type: the node.
        tensor: the value that overflows or nearly does, read or written by the node.
        absmax: its largest magnitude.
    """

    node: str
    op_type: str
    tensor: str
    absmax: float


class Fp16Report(Record):
    """`20_ranges/fp16.json`: every float tensor, and the fp32 islands that follow."""

    samples: int
    tensors: tuple[Fp16Tensor, ...]
    islands: tuple[Island, ...]
