"""Sums over two tensors that should be equal, from which all their distances follow.

They are float64 and add up over any parts, so that a distance over a whole set needs no tensor of
it kept. Values whose squares float64 cannot hold, such as 1e200 and 1e-200, are divided by a power
of two first, which changes no digit of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import frexp, ldexp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.numerics.error_metrics import in_parts

_SAFE = (1e-140, 1e140)
"""Sums of squares within which the product of two of them, and the sum of many parts, is a normal
number of float64. Those of float32 are, down to its smallest number."""


@dataclass(frozen=True, slots=True)
class Differences:
    """What two tensors have in common, and what not; values that are not finite enter no sum.

    Attributes:
        elements: that are finite in both.
        dot, of_reference, of_other, noise: sums of ``x y``, ``x^2``, ``y^2`` and ``(x - y)^2``, in
            units of ``4^exponent``.
        absolute: sum of ``|x - y|``, in units of ``2^exponent``.
        largest: greatest ``|x - y|``.
        absmax: greatest ``|x|``.
        nonfinite_reference, nonfinite_other: how many values of each are NaN or Inf.
        nonfinite_apart: positions with a NaN, or with an Inf that the other one has not.
        exponent: of the unit; 0 unless values are so large or small that their squares need it.
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
    exponent: int = 0

    def plus(self, more: Differences) -> Differences:
        """Of both parts together."""
        units = {x.exponent for x in (self, more) if x.of_reference or x.of_other}
        unit = max(units, default=0)
        a, b = self._in(unit), more._in(unit)
        return Differences(
            exponent=unit,
            elements=self.elements + more.elements,
            dot=a.dot + b.dot,
            of_reference=a.of_reference + b.of_reference,
            of_other=a.of_other + b.of_other,
            noise=a.noise + b.noise,
            absolute=a.absolute + b.absolute,
            largest=max(self.largest, more.largest),
            absmax=max(self.absmax, more.absmax),
            nonfinite_reference=self.nonfinite_reference + more.nonfinite_reference,
            nonfinite_other=self.nonfinite_other + more.nonfinite_other,
            nonfinite_apart=self.nonfinite_apart + more.nonfinite_apart,
        )

    def _in(self, unit: int) -> Differences:
        """The same in another unit, that is no smaller unless all sums are zero."""
        by = self.exponent - unit
        if not by:
            return self
        return replace(
            self,
            dot=ldexp(self.dot, 2 * by),
            of_reference=ldexp(self.of_reference, 2 * by),
            of_other=ldexp(self.of_other, 2 * by),
            noise=ldexp(self.noise, 2 * by),
            absolute=ldexp(self.absolute, by),
            exponent=unit,
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
        if not self.elements:
            return float("nan")
        with np.errstate(over="ignore"):  # the mean of differences may be beyond float64
            return float(np.ldexp(self.absolute / self.elements, self.exponent))


def differences(reference: NDArray[Any], other: NDArray[Any]) -> Differences:
    """The sums over two arrays of one shape and any numeric type."""
    found = Differences()
    for a, b in in_parts(reference.reshape(1, -1), other.reshape(1, -1)):
        found = found.plus(_of_part(a.ravel(), b.ravel()))
    return found


def _of_part(a: NDArray[np.float64], b: NDArray[np.float64]) -> Differences:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        of_reference, of_other = _product(a, a), _product(b, b)
    if _SAFE[0] < of_reference < _SAFE[1] and _SAFE[0] < of_other < _SAFE[1]:
        return _sums(a, b, of_reference, of_other)
    good_a, good_b = np.isfinite(a), np.isfinite(b)
    both = good_a & good_b
    counts = Differences(
        nonfinite_reference=int((~good_a).sum()),
        nonfinite_other=int((~good_b).sum()),
        nonfinite_apart=int((~both & ~(a == b)).sum()),  # NaN is equal to nothing
    )
    return counts.plus(_in_own_unit(a[both], b[both]))


def _in_own_unit(x: NDArray[np.float64], y: NDArray[np.float64]) -> Differences:
    """The sums over finite values of any magnitude."""
    greatest = max(_absmax(x), _absmax(y))
    exponent = 0
    if greatest and not _SAFE[0] < greatest * greatest < _SAFE[1]:
        exponent = frexp(greatest)[1]
    with np.errstate(over="ignore", under="ignore"):
        a, b = (np.ldexp(v, -exponent) if exponent else v for v in (x, y))
        found = _sums(a, b, _product(a, a), _product(b, b))
        largest, absmax = np.ldexp([found.largest, found.absmax], exponent)
    return replace(found, largest=float(largest), absmax=float(absmax), exponent=exponent)


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
        absmax=_absmax(a),
    )


def _absmax(a: NDArray[np.float64]) -> float:
    return float(max(a.max(initial=0.0), -a.min(initial=0.0)))


def _product(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """``a b`` without BLAS, whose threads take longer to meet than to multiply so few numbers."""
    return float(np.einsum("i,i->", a, b))
