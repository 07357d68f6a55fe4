"""The rule by which a loss is put down to a cause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, get_args

import numpy as np

from quantflow.artifacts.diagnosis_record import Cause, Share
from quantflow.numerics.resample import resampled_means
from quantflow.tasks.metrics import Values

LEAST_SHARE: Final = 0.5
"""Share of the loss from which on a change tells where it comes from."""

LEAST_LOW: Final = 0.2
"""The interval of that share must lie above this."""

FEW: Final = 4
"""Layers are to blame when one in `FEW` of the groups or fewer have the loss."""


def comparable(damages: Mapping[str, Values], weights: Values) -> dict[str, Values]:
    """Damages that can be subtracted: a broken output counts as ten times the worst, at least 1.

    Args:
        damages: ``(S,)`` by experiment; not finite where an output is broken.
        weights: ``(S,)``; a sample without weight says nothing, NaN though it be.
    """
    stacked = np.stack(list(damages.values()))
    worst = 10 * float(np.abs(stacked[np.isfinite(stacked)]).max(initial=0.0))
    broken = max(worst, 1.0)
    return {
        name: np.where(np.isfinite(x) | (weights == 0), x, broken) for name, x in damages.items()
    }


def share_of(part: Values, whole: Values, weights: Values, *, seed: int) -> Share:
    """The mean of one thing over the mean of another on the same samples.

    Both are resampled together (percentile bootstrap, Efron 1979), so that how samples differ does
    not widen the interval. Where more than 2.5% of the resamples have no loss at all, the interval
    is NaN: it may be chance.

    Args:
        part, whole: ``(S,)`` float64, finite where they count.
        weights: ``(S,)``, how much each sample counts.
        seed: of the bootstrap.
    """

    rows = np.stack([np.where(weights > 0, x * weights, 0.0) for x in (part, whole)])
    over, loss, counted = resampled_means(np.stack([*rows, weights]), seed=seed).T
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(loss > 0, over / loss, -np.inf)[counted > 0]
        low, high = np.quantile(shares, [0.025, 0.975]) if len(shares) else (np.nan, np.nan)
    total = rows.sum(axis=1)
    value = float(total[0] / total[1]) if total[1] > 0 else np.nan
    if not np.isfinite([value, low, high]).all():
        low = high = np.nan
    return Share(value=value, low=float(low), high=float(high))


def holds(share: Share | None) -> bool:
    """Whether a share is large enough, and surely not a small one."""
    return share is not None and share.value >= LEAST_SHARE and share.low > LEAST_LOW


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one experiment says.

    Attributes:
        name: of the experiment.
        cause: what it is evidence for.
        share: of the loss.
        groups: how many groups it puts in fp16, of how many; (0, 0) where it is not about groups.
    """

    name: str
    cause: Cause
    share: Share
    groups: tuple[int, int] = (0, 0)

    @property
    def holds(self) -> bool:
        """Whether it tells where the loss comes from."""
        few = FEW * self.groups[0] <= self.groups[1]
        return holds(self.share) and few


def called(evidence: Iterable[Evidence]) -> dict[Cause, Evidence]:
    """The causes that hold, in the order of precedence, each with the first that speaks for it."""
    found = dict[Cause, Evidence]()
    for entry in evidence:
        if entry.holds:
            found.setdefault(entry.cause, entry)
    return {cause: found[cause] for cause in get_args(Cause) if cause in found}
