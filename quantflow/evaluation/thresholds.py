"""What is asked of two sides, by what they are, and in what a tensor is beyond it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isnan, sqrt

from quantflow.artifacts.side_by_side import Limits, PlaceKind, Point, SideKind
from quantflow.config import COSINE_MEAN
from quantflow.tasks.criteria import Criterion

INT8_KINDS: frozenset[SideKind] = frozenset({"int8", "qdq", "om_int8", "om"})
"""What is INT8, or may be: an .om file does not say how its layers were written."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What is asked of a pair; the defaults are those of fp16 against fp32.

    fp16 keeps 11 bits, so that rounding is 2^-11 of a value at most. Over the layers of a network
    it grows to some 2e-3 of a tensor's norm, which is a cosine of 0.999998, and the largest error
    of an output to 2e-3 of its absmax (MiniLM, emulated, 64 texts). The limits leave room for that
    (ten times 2^-11 for an output's error), and none for an overflow, a wrong mask or exchanged
    rows. Those of msprobe's comparison of tensors are wider (cosine 0.99).

    Attributes:
        layer_cosine: least cosine of a layer's output, over all samples.
        layers_decide: whether a layer beyond it fails the comparison.
        output_cosine: least mean cosine of an output.
        output_error: greatest error of an output relative to the reference's absmax, or None.
        source: where the numbers come from.
    """

    layer_cosine: float = 0.999
    layers_decide: bool = True
    output_cosine: float = 0.9999
    output_error: float | None = 5e-3
    source: str = "what rounding to fp16 leaves room for"

    @property
    def layer_error(self) -> float:
        """Greatest relative error of a layer's output: ``sqrt(2 (1 - cosine))``.

        That is the error of two vectors of equal length with the least cosine. A wrong scale leaves
        the cosine as it is and shows here.
        """
        return sqrt(max(0.0, 2 * (1 - self.layer_cosine)))

    def as_limits(self) -> Limits:
        """As it is recorded."""
        return Limits(
            layer_cosine=self.layer_cosine,
            layers_decide=self.layers_decide,
            output_cosine=self.output_cosine,
            output_error=self.output_error,
            source=self.source,
        )


INT8 = Thresholds(
    layer_cosine=0.98,
    layers_decide=False,
    output_cosine=COSINE_MEAN,
    output_error=None,
    source=f"the default of budget.cosine_mean, {COSINE_MEAN}",
)
"""INT8 against anything: one rounding step of a tensor is 1% to 2% of its norm, and what becomes of
it shows at the outputs, which the budget is about. The figure of layers only marks them."""


def thresholds_for(
    reference: SideKind, other: SideKind, criteria: Mapping[str, Criterion] | None = None
) -> Thresholds:
    """What is asked of a pair.

    Args:
        reference, other: what they are.
        criteria: of the configuration's budget, whose cosine counts for INT8.
    """
    if not INT8_KINDS & {reference, other}:
        return Thresholds()
    asked = (criteria or {}).get("cosine")
    if asked is None or asked.limit is None:
        return INT8
    return replace(INT8, output_cosine=1 - asked.limit, source=asked.key)


def adjusted(
    thresholds: Thresholds,
    layer_cosine: float | None,
    output_cosine: float | None,
    output_error: float | None,
) -> Thresholds:
    """With what the command line gives; a cosine of layers that is given decides."""
    given = list[str]()
    if layer_cosine is not None:
        thresholds = replace(thresholds, layer_cosine=layer_cosine, layers_decide=True)
        given.append("--layer-cosine")
    if output_cosine is not None:
        thresholds = replace(thresholds, output_cosine=output_cosine)
        given.append("--output-cosine")
    if output_error is not None:
        thresholds = replace(thresholds, output_error=output_error)
        given.append("--output-error")
    if not given:
        return thresholds
    return replace(thresholds, source=f"{', '.join(given)}; else {thresholds.source}")


def excess(point: Point, kind: PlaceKind, asked: Thresholds) -> str:
    """In what a tensor is beyond what is asked, or nothing; a figure that is NaN is beyond.

    Args:
        point: what was measured.
        kind: what the tensor is.
        asked: of the pair.
    """
    if no_numbers(point, kind):
        counts = f"{point.nonfinite_other:,}, of the reference {point.nonfinite_reference:,}"
        if point.nonfinite_other or point.nonfinite_reference:
            return f"values that are NaN or Inf: {counts}"
        again = isnan(point.jitter_max_abs or 0.0)
        return "values of a repeated run that are NaN or Inf" if again else "figures that are NaN"
    if point.max_abs_error <= (point.jitter_max_abs or 0.0):  # no error, or no more than jitter
        return ""
    return _output_excess(point, asked) if kind == "output" else _layer_excess(point, asked)


def no_numbers(point: Point, kind: PlaceKind) -> bool:
    """Whether a tensor is no numbers to compare, which never passes.

    An Inf that both sides have is one at a layer, where a mask may put it, and not at an output.
    """
    of_output = kind == "output" and (point.nonfinite_reference or point.nonfinite_other)
    figures = (
        point.cosine, point.cosine_mean, point.max_abs_error, point.relative_error,
        point.jitter_max_abs or 0.0,
    )  # fmt: skip
    return bool(point.nonfinite_apart or of_output) or any(map(isnan, figures))


def _layer_excess(point: Point, asked: Thresholds) -> str:
    if not point.cosine >= asked.layer_cosine:
        return f"cosine {point.cosine:.6f}, expected {asked.layer_cosine} or more"
    if not point.relative_error <= asked.layer_error:
        return (
            f"relative error {point.relative_error:.3g} at cosine {point.cosine:.6f}, expected "
            f"{asked.layer_error:.3g} or less"
        )
    return ""


def _output_excess(point: Point, asked: Thresholds) -> str:
    if not point.cosine_mean >= asked.output_cosine:
        return f"mean cosine {point.cosine_mean:.6f}, expected {asked.output_cosine} or more"
    limit = asked.output_error
    if limit is not None and not point.max_abs_error <= limit * point.reference_absmax:
        return (
            f"an error of {point.max_abs_error:.3g}, expected {limit} of the reference's absmax "
            f"{point.reference_absmax:.3g} or less"
        )
    return ""
