"""Sums over two tensors that should be equal, from which all their distances follow.

They are float64 and add up over any parts, so that a distance over a whole set needs no tensor of
it kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.numerics.error_metrics import in_parts


@dataclass(frozen=True, slots=True)
class Differences:
    """What two tensors have in common, and what not; values that are not finite enter no sum.

    Attributes:
        elements: that are finite in both.
        dot, of_reference, of_other, noise: sums of ``x y``, ``x^2``, ``y^2`` and ``(x - y)^2``.
        absolute: sum of ``|x - y|``.
        largest: greatest ``|x - y|``.
        absmax: greatest ``|x|``.
        nonfinite_reference, nonfinite_other: how many values of each are NaN or Inf.
        nonfinite_apart: positions with a NaN, or with an Inf that the other one has not.
    """

    elements: int = 0
    dot: float = 0.0
    of_reference: float = 0.0
    of_other: float = 0.0
    noise: float = 0.0
    absolute: float = 0.0
    largest: float = 0.0
    absmax: float = 0.0
    nonfinite_reference: int = 0
    nonfinite_other: int = 0
    nonfinite_apart: int = 0

    def plus(self, more: Differences) -> Differences:
        """Of both parts together."""
        return Differences(
            elements=self.elements + more.elements,
            dot=self.dot + more.dot,
            of_reference=self.of_reference + more.of_reference,
            of_other=self.of_other + more.of_other,
            noise=self.noise + more.noise,
            absolute=self.absolute + more.absolute,
            largest=max(self.largest, more.largest),
            absmax=max(self.absmax, more.absmax),
            nonfinite_reference=self.nonfinite_reference + more.nonfinite_reference,
            nonfinite_other=self.nonfinite_other + more.nonfinite_other,
            nonfinite_apart=self.nonfinite_apart + more.nonfinite_apart,
        )

    @property
    def cosine(self) -> float:
        """``x y / (|x| |y|)``: 1 of two zero vectors, 0 of one, NaN without finite elements."""
        if not self.elements:
            return float("nan")
        # The root of the product: of equal vectors it is their square to the last bit.
        norms = float(np.sqrt(self.of_reference * self.of_other))
        if norms == 0.0:
            return 1.0 if self.of_reference == self.of_other else 0.0
        return max(-1.0, min(1.0, self.dot / norms))

    @property
    def relative_error(self) -> float:
        """``|x - y| / |x|`` in the Euclidean norm; 0 without error, infinite for one on zero."""
        if self.noise == 0.0:
            return 0.0 if self.elements else float("nan")
        if self.of_reference == 0.0:
            return float("inf")
        return float(np.sqrt(self.noise / self.of_reference))

    @property
    def mean_abs_error(self) -> float:
        """Mean of ``|x - y|``; NaN without finite elements."""
        return self.absolute / self.elements if self.elements else float("nan")


def differences(reference: NDArray[Any], other: NDArray[Any]) -> Differences:
    """The sums over two arrays of one shape and any numeric type."""
    found = Differences()
    for a, b in in_parts(reference.reshape(1, -1), other.reshape(1, -1)):
        found = found.plus(_of_part(a.ravel(), b.ravel()))
    return found


def _of_part(a: NDArray[np.float64], b: NDArray[np.float64]) -> Differences:
    of_reference, of_other = _product(a, a), _product(b, b)
    if np.isfinite(of_reference) and np.isfinite(of_other):
        return _sums(a, b, of_reference, of_other)
    good_a, good_b = np.isfinite(a), np.isfinite(b)
    both = good_a & good_b
    x, y = a[both], b[both]
    counts = Differences(
        nonfinite_reference=int((~good_a).sum()),
        nonfinite_other=int((~good_b).sum()),
        nonfinite_apart=int((~both & ~(a == b)).sum()),  # NaN is equal to nothing
    )
    return counts.plus(_sums(x, y, _product(x, x), _product(y, y)))


def _sums(
    a: NDArray[np.float64], b: NDArray[np.float64], of_reference: float, of_other: float
) -> Differences:
    off = a - b
    noise = _product(off, off)
    size = np.abs(off, out=off)
    return Differences(
        elements=a.size,
        dot=_product(a, b),
        of_reference=of_reference,
        of_other=of_other,
        noise=noise,
        absolute=float(size.sum()),
        largest=float(size.max(initial=0.0)),
        absmax=float(max(a.max(initial=0.0), -a.min(initial=0.0))),
    )


def _product(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """``a b`` without BLAS, whose threads take longer to meet than to multiply so few numbers."""
    return float(np.einsum("i,i->", a, b))
