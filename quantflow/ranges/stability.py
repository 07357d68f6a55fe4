"""Subset stability: how far ranges move between subsets of the calibration set.

Two subsets that share no sample stand in for two calibration sets of their size. That goes up to
half of the samples; for more of them it is extrapolated. The figures are lower bounds of a kind: no
subset reaches further than the set does, while fresh samples may. In simulations with uniform,
normal, gamma and Cauchy values, a fresh set of the same size kept within the expected spread in
three to four of five cases, not in 95 of 100.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.stability_record import StabilityReport, StabilityRow

DRAWS = 100
"""Pairs of random subsets."""

QUANTILE = 0.95
"""Share of the pairs whose widths differ by the spread at most."""

STABLE = 0.05
"""Spread from which down a range counts as stable."""

LEAST = 8
"""Samples of the smallest subsets."""

_SEED = 26

Floats = NDArray[np.float64]
Extremes = tuple[Floats, Floats]
"""Low and high of every sample, ``(S,)`` each; infinite for a sample without a finite value."""


def stability_report(
    extremes: Mapping[str, Extremes], groups: Mapping[str, str], draws: int = DRAWS
) -> StabilityReport:
    """Compare random subsets of 8, 16, 32 and so on samples, up to half of them.

    Args:
        extremes: of every tensor on the same S samples.
        groups: name of every tensor's group.
        draws: pairs of subsets of every size.
    """
    samples = len(next(iter(extremes.values()))[0]) if extremes else 0
    sizes = subset_sizes(samples)
    spreads = subset_spreads(list(extremes.values()), sizes, draws)
    expected = [extrapolated(sizes, row, samples) for row in spreads]
    rows = [
        StabilityRow(
            tensor=tensor,
            group=groups[tensor],
            spreads=tuple(row.tolist()),
            expected=all_of_them,
            enough=_enough([*sizes, samples], [*row, all_of_them]),
        )
        for tensor, row, all_of_them in zip(extremes, spreads, expected, strict=True)
    ]
    table = np.column_stack([spreads, expected]) if rows else np.zeros((1, len(sizes) + 1))
    largest = table.max(axis=0)
    report = StabilityReport(
        reasons=(),
        samples=samples,
        draws=draws,
        threshold=STABLE,
        sizes=tuple(sizes),
        median=tuple(np.median(table, axis=0).tolist()),
        largest=tuple(largest.tolist()),
        enough=_enough([*sizes, samples], largest.tolist()),
        rows=tuple(rows),
    )
    return report.model_copy(update={"reasons": _reasons(report)})


def subset_sizes(samples: int) -> list[int]:
    """8, 16, 32 and so on, up to half of the samples."""
    count = max((samples // 2 // LEAST).bit_length(), 0)
    return [LEAST << i for i in range(count)]


def subset_spreads(extremes: Sequence[Extremes], sizes: Sequence[int], draws: int) -> Floats:
    """The spread of T tensors for K sizes of subsets, ``(T, K)``.

    Every draw puts the samples in a random order. The first and the last of them are two subsets of
    a size, for all sizes at once, and the same ones for all tensors.

    Args:
        extremes: of every tensor on the same S samples.
        sizes: ascending, at most S / 2.
        draws: random orders.
    """
    if not extremes or not sizes:
        return np.zeros((len(extremes), len(sizes)))
    samples, ends = len(extremes[0][0]), np.array(sizes) - 1
    rng = np.random.default_rng([_SEED, samples])
    order = rng.permuted(np.tile(np.arange(samples), (draws, 1)), axis=1)
    subsets = (order[:, : sizes[-1]], order[:, ::-1][:, : sizes[-1]])
    result = np.zeros((len(extremes), len(sizes)))
    for number, (low, high) in enumerate(extremes):
        # A quantized range contains zero; so an infinite extreme, of no value, does not count.
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
        full = float(high.max() - low.min())
        if full > 0:
            first, last = (_widths(low, high, subset)[:, ends] for subset in subsets)
            result[number] = np.quantile(np.abs(first - last), QUANTILE, axis=0) / full
    return result


def extrapolated(sizes: Sequence[int], spreads: Floats, samples: int) -> float:
    """The spread for sets of so many samples: a power law through those of the subsets.

    Its exponent is that of least squares between the logarithms, its last point the measured one.
    With a single size the spread is taken to stay as it is, without any it is 1.

    Args:
        sizes: of the subsets, ascending.
        spreads: ``(K,)`` for every size.
        samples: how many the sets have.
    """
    if not sizes:
        return 1.0
    seen = spreads > 0
    if seen.sum() < 2 or not seen[-1]:
        return float(spreads[-1])
    x, y = np.log(np.array(sizes))[seen], np.log(spreads[seen])
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())
    return float(spreads[-1] * (samples / sizes[-1]) ** min(slope, 0.0))


def _widths(low: Floats, high: Floats, order: NDArray[np.intp]) -> Floats:
    """Width on the first 1, 2, ... samples of every order, ``(R, S)``."""
    return np.maximum.accumulate(high[order], axis=1) - np.minimum.accumulate(low[order], axis=1)


def _enough(sizes: Sequence[int], spreads: Sequence[float]) -> int | None:
    """The smallest size from which on all spreads are within the threshold."""
    found = None
    for size, spread in zip(reversed(sizes), reversed(spreads), strict=True):
        if spread > STABLE:
            break
        found = size
    return found


def _reasons(report: StabilityReport) -> tuple[str, ...]:
    """A sentence where ranges would differ from set to set."""
    if not report.rows or report.enough is not None:
        return ()
    if not report.sizes:
        return (
            f"{report.samples} calibration samples are too few to tell how far ranges move from "
            f"one set to another; {2 * LEAST} would tell",
        )
    worst = max(report.rows, key=lambda row: row.expected)
    unstable = sum(row.enough is None for row in report.rows)
    half = report.sizes[-1]
    return (
        f"with {half} samples the range of {worst.group} moves by {worst.spreads[-1]:.0%} from "
        f"subset to subset, with all {report.samples} by about {worst.expected:.0%}; "
        f"{unstable} of {len(report.rows)} tensors need more than {report.samples} samples to stay "
        f"within {STABLE:.0%}",
    )
