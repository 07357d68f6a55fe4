"""How features of a calibration set differ, in figures that a person can read."""

from __future__ import annotations

from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from quantflow.calibration.drift.distances import JOINT, Measure
from quantflow.calibration.drift.jensen_shannon import jensen_shannon
from quantflow.calibration.drift.sides import Side, calibration_side, centres_for
from quantflow.calibration.drift.stability_index import stability_index
from quantflow.calibration.features.table import FeatureTable
from quantflow.calibration.profile.profile import Profile

EXAMPLES = 3

_TENTHS = 10


class Figures(TypedDict):
    """Figures of a scalar feature; all None for another. See `FeatureDrift`."""

    calibration_median: float | None
    deployment_median: float | None
    shift: float | None
    stability_index: float | None
    outside_fraction: float | None
    uncovered_fraction: float | None


_NO_FIGURES = Figures(
    calibration_median=None,
    deployment_median=None,
    shift=None,
    stability_index=None,
    outside_fraction=None,
    uncovered_fraction=None,
)


class Comparison:
    """A calibration set beside a deployment profile.

    Attributes:
        side: the set in the profile's bins.
        centres: ``(F, BINS)`` what the values of every bin are taken to be.
    """

    def __init__(self, table: FeatureTable, profile: Profile, effective: float) -> None:
        """Lay the set out in the profile's bins.

        Args:
            table: features of the set.
            profile: of the deployment sample.
            effective: effective number of samples of the set.
        """
        self.side: Side = calibration_side(table, profile, effective)
        self.centres = centres_for(profile, table)
        self._table, self._profile = table, profile
        self._places = {name: place for place, name in enumerate(profile.names)}
        self._theirs = profile.scalars.sum(axis=0)

    def figures(self, feature: str) -> Figures:
        """What a person wants to know of a feature."""
        if feature not in self._places:
            return _NO_FIGURES
        place = self._places[feature]
        values, middle = self._values(place), self.centres[place]
        ours, theirs = self.side.scalars[place], self._theirs[place]
        mean = float((theirs * middle).sum() / theirs.sum())
        spread = float(np.sqrt((theirs * (middle - mean) ** 2).sum() / theirs.sum()))
        return Figures(
            calibration_median=float(np.median(values)),
            deployment_median=self._median(place),
            shift=float((values.mean() - mean) / spread) if spread > 0 else None,
            stability_index=_index_over_tenths(ours, theirs),
            outside_fraction=_share_beyond(ours, theirs),
            uncovered_fraction=_share_beyond(theirs, ours),
        )

    def examples(self, measure: Measure) -> tuple[str, ...]:
        """Ids of the samples that are least like deployment in a feature.

        None where deployment has samples that none of them is like.
        """
        if measure.test == "uncovered":
            return ()
        name, profile, table = measure.feature, self._profile, self._table
        if name in self._places:
            place = self._places[name]
            far = np.abs(self._values(place) - self._median(place))
        elif name == JOINT:
            far = -profile.joint.density(profile.joint.standardized(table))
        else:
            kind = "counts" if name in profile.counts else "categories"
            own: NDArray[np.int64] = getattr(table, kind)[name]
            theirs: NDArray[np.int64] = getattr(profile, kind)[name]
            whole: NDArray[np.int64] = theirs.sum(axis=0)
            far = jensen_shannon(own, whole)
        order = np.argsort(-far, kind="stable")[:EXAMPLES]
        return tuple(table.ids[int(i)] for i in order)

    def _values(self, place: int) -> NDArray[np.float64]:
        return self._table.columns(self._profile.names[place : place + 1])[:, 0]

    def _median(self, place: int) -> float:
        counts = self._theirs[place]
        half = float(counts.sum()) / 2
        middle = int(np.searchsorted(np.cumsum(counts), half))
        return float(self.centres[place, middle])


def _share_beyond(a: NDArray[np.int64], b: NDArray[np.int64]) -> float:
    """Share of one histogram in bins below or above all that another occupies, 0-1."""
    first, last = np.flatnonzero(b)[[0, -1]]
    return float(1 - a[first : last + 1].sum() / a.sum())


def _index_over_tenths(ours: NDArray[np.int64], theirs: NDArray[np.int64]) -> float:
    """Population stability index over groups of bins that hold a tenth of deployment each."""
    upto = np.cumsum(theirs)
    tenth = np.minimum((upto - theirs / 2) / theirs.sum() * _TENTHS, _TENTHS - 1).astype(np.intp)
    a, b = (np.bincount(tenth, weights=side, minlength=_TENTHS) for side in (ours, theirs))
    return float(stability_index(a, b))
