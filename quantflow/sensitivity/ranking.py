"""The order of groups from most to least harmful, and how far it is to be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Group
from quantflow.numerics.resample import rank_rows, resampled_means, spearman

Matrix = NDArray[np.float64]

ATTENTION = ("qkv", "attention_output")
"""Roles that come first among groups whose order may be chance: the usual candidates for fp16."""

_ENDS = (0.025, 0.975)


@dataclass(frozen=True, slots=True)
class Ranking:
    """Groups in order.

    Attributes:
        order: places in the list of groups, most harmful first.
        tied: for every place in the order but the last, whether it and the next may be swapped by
            chance: the 95% interval of their difference holds 0.
        places: ``(G, 2)``, least and greatest place that a group takes in 95% of the resamples.
        stability: mean Spearman correlation of the resamples' orders with that of the means; NaN
            for fewer than two groups.
        means: ``(R, G)``, mean damage of the groups in every resample.
    """

    order: tuple[int, ...]
    tied: tuple[bool, ...]
    places: NDArray[np.int64]
    stability: float
    means: Matrix


def rank(groups: Sequence[Group], damage: Matrix, *, seed: int) -> Ranking:
    """Order groups by their mean damage.

    Args:
        groups: G of them.
        damage: ``(G, S)``, NaN where a group was not measured on a sample, infinite where it broke
            the output. A group that breaks one output comes before all that break none, and one
            that saw fewer samples than others stands where it would on all of them, as estimated.
        seed: of the bootstrap.
    """
    known = _as_if_on_all(_finite(damage))
    of_all = _means(known)
    means = resampled_means(known, seed=seed)
    # A resample may hold none of the samples that a group was measured on.
    means = np.where(np.isnan(means), of_all, means)
    order = list[int]()
    worst_first: list[int] = np.argsort(-of_all, kind="stable").tolist()
    for group in worst_first:
        place = len(order)
        while (
            place
            and _goes_first(groups[group], groups[order[place - 1]])
            and _tied(means, order[place - 1], group)
        ):
            place -= 1
        order.insert(place, group)
    ranks = rank_rows(means)
    low, high = np.quantile(ranks, _ENDS, axis=0, method="inverted_cdf")
    stability = spearman(means, of_all) if len(groups) > 1 else np.full(1, np.nan)
    return Ranking(
        order=tuple(order),
        tied=tuple(_tied(means, a, b) for a, b in pairwise(order)),
        places=np.stack([low, high], axis=1).astype(np.int64),
        stability=float(stability.mean()),
        means=means,
    )


def survivors(ranking: Ranking, keep: int) -> list[int]:
    """The first `keep` groups, and all after them that the last of these is tied with."""
    first, rest = ranking.order[:keep], ranking.order[keep:]
    return sorted([*first, *(x for x in rest if _tied(ranking.means, first[-1], x))])


def _goes_first(group: Group, before: Group) -> bool:
    return group.role in ATTENTION and before.role not in ATTENTION


def _tied(means: Matrix, a: int, b: int) -> bool:
    difference = means[:, a] - means[:, b]
    low, high = np.quantile(difference, _ENDS)
    return bool(low <= 0 <= high)


def _means(damage: Matrix) -> NDArray[np.float64]:
    """Mean of every row over what was measured."""
    measured = ~np.isnan(damage)
    return np.where(measured, damage, 0.0).sum(axis=1) / np.maximum(measured.sum(axis=1), 1)


def _finite(damage: Matrix) -> Matrix:
    """Finite values: a group that breaks an output is worse than all that break none, whichever
    samples are drawn."""
    broken = np.isposinf(damage)
    worst = 10 * float(np.abs(damage[np.isfinite(damage)]).max(initial=1.0))
    of_breaking = broken.any(axis=1, keepdims=True) & ~np.isnan(damage)
    return np.where(broken, 2 * worst, np.where(of_breaking, worst, damage))


def _as_if_on_all(damage: Matrix) -> Matrix:
    """Damages of groups that saw fewer samples than others, made comparable.

    Samples differ in how hard they are. So a group's damages are multiplied by what the groups that
    saw all samples had on all of them, over what these had on the group's own (a ratio estimate:
    Cochran, Sampling Techniques, 1977).
    """
    seen = ~np.isnan(damage)
    counts = np.maximum(seen.sum(axis=1), 1)
    whole = int(counts.argmax())
    reference = np.where(seen, damage, 0.0)[counts == counts[whole]].mean(axis=0)
    own = (seen * reference).sum(axis=1) / counts
    comparable = (own > 0) & (own[whole] > 0)
    return damage * np.where(comparable, own[whole] / np.where(comparable, own, 1.0), 1.0)[:, None]
