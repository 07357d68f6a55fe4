"""What adds up of one tensor on two sides, sample by sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.side_by_side import Point
from quantflow.evaluation.places import Place
from quantflow.numerics.differences import Differences, differences
from quantflow.numerics.distribution import divergence, is_distribution
from quantflow.numerics.output_metrics import softmax_kl
from quantflow.numerics.row_cosines import row_cosines

_AT_ONCE = 2**18
"""Elements of short entries that are compared at once, in float64."""

WORST = 5
"""Most samples that are named as the worst."""


@dataclass(slots=True)
class Tally:
    """Sums over the samples seen so far: a few numbers, and no tensor.

    Attributes:
        logits: whether rows are logits, whose softmax is compared.
        trouble: why the tensor cannot be compared, or empty.
    """

    logits: bool = False
    trouble: str = ""
    _sums: Differences = field(default_factory=Differences)
    _samples: int = 0
    _cosines: float = 0.0
    _cosine_min: float = float("inf")
    _kl: float = 0.0
    _kl_rows: int = 0
    _no_distribution: bool = False
    _worst: list[tuple[float, float, str]] = field(default_factory=list[tuple[float, float, str]])

    @property
    def samples(self) -> int:
        """How many were added."""
        return self._samples

    def add(self, sample: str, reference: NDArray[Any], other: NDArray[Any]) -> None:
        """Add a sample.

        Args:
            sample: its id.
            reference, other: its values, of one shape; rows along the last axis where they are
                whole, else one vector.
        """
        found = differences(reference, other)
        cosine = found.cosine if found.elements else -1.0
        # NaN and Inf first, then the least cosine.
        rank = (-float(found.nonfinite_apart), cosine, sample)
        self._add(found, np.array([cosine]), [rank])
        self._add_divergence(reference, other)

    def add_entries(self, reference: NDArray[Any], other: NDArray[Any]) -> None:
        """Add every entry along the first axis as a sample: ``[0]`` and so on.

        Args:
            reference, other: ``(N, ...)`` each, of which some at a time are held in float64.
        """
        width = prod(reference.shape[1:])
        step = max(1, _AT_ONCE // max(1, width))
        for start in range(0, len(reference), step):
            a, b = (x[start : start + step] for x in (reference, other))
            if step == 1:
                self.add(f"[{start}]", a, b)
            else:
                self._add_short(start, a, b, width)

    def _add_short(self, start: int, a: NDArray[Any], b: NDArray[Any], width: int) -> None:
        x, y = (v.reshape(len(v), width).astype(np.float64) for v in (a, b))
        cosines, apart = row_cosines(x, y)
        worst = np.lexsort((cosines, -apart))[:WORST]
        ranks = [(-float(apart[i]), float(cosines[i]), f"[{start + int(i)}]") for i in worst]
        self._add(differences(x, y), cosines, ranks)
        self._add_divergence(a, b)

    def _add(
        self,
        found: Differences,
        cosines: NDArray[np.float64],
        ranks: Sequence[tuple[float, float, str]],
    ) -> None:
        self._sums = self._sums.plus(found)
        self._samples += len(cosines)
        self._cosines += float(cosines.sum())
        self._cosine_min = min(self._cosine_min, float(cosines.min()))
        self._worst = sorted([*self._worst, *ranks])[:WORST]

    def _add_divergence(self, reference: NDArray[Any], other: NDArray[Any]) -> None:
        if self._no_distribution or reference.dtype.kind != "f":
            self._no_distribution = True
        elif self.logits:
            rows = reference.size // max(reference.shape[-1], 1) if reference.ndim else 1
            self._kl += _finite(softmax_kl(reference, other)) * rows
            self._kl_rows += rows
        elif is_distribution(reference):
            kl, rows = divergence(reference, other)
            self._kl, self._kl_rows = self._kl + kl, self._kl_rows + rows
        elif reference.ndim >= 2:  # a mere vector is cut out of rows, and says nothing of them
            self._no_distribution = True

    def point(self, place: Place, jitter: tuple[float, float] | None) -> Point:
        """What was found, before it is judged.

        Args:
            place: where the tensor is.
            jitter: largest difference, and distance of the cosine from 1, of a side run twice.
        """
        head = Point(name=place.name, kind=place.kind, tensor=place.tensor, node=place.node)
        if self.trouble or not self._samples:
            return head.model_copy(update={"trouble": self.trouble or "no sample was compared"})
        sums = self._sums
        if not (sums.elements or sums.nonfinite_reference or sums.nonfinite_other):
            return head.model_copy(update={"trouble": "it has no elements to compare"})
        known = self._kl_rows and not self._no_distribution
        figures: dict[str, object] = {
            "samples": self._samples,
            "cosine": sums.cosine,
            "cosine_mean": self._cosines / self._samples,
            "cosine_min": self._cosine_min,
            "max_abs_error": sums.largest,
            "mean_abs_error": sums.mean_abs_error,
            "relative_error": sums.relative_error,
            "reference_absmax": sums.absmax,
            "kl": self._kl / self._kl_rows if known else None,
            "nonfinite_reference": sums.nonfinite_reference,
            "nonfinite_other": sums.nonfinite_other,
            "nonfinite_apart": sums.nonfinite_apart,
            "jitter_max_abs": jitter[0] if jitter else None,
            "jitter_cosine": jitter[1] if jitter else None,
            "worst_samples": tuple(sample for *_, sample in self._worst),
        }
        return head.model_copy(update=figures)


def _finite(value: float) -> float:
    """Infinite logits have no softmax: their divergence counts as infinite."""
    return value if np.isfinite(value) else float("inf")
