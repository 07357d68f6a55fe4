"""Which candidates the model is run on: a shortlist, by what needs no model."""

from __future__ import annotations

from quantflow.calibration.features.table import FeatureTable
from quantflow.calibration.profile.profile import Profile
from quantflow.calibration.select import select_matching

LEAST, TIMES = 400, 4
"""A shortlist holds so many candidates at least, and so many for each that is wanted."""


def shortlist(candidates: FeatureTable, profile: Profile, count: int) -> list[int]:
    """Positions of the candidates to choose `count` from, all of them where there are few.

    Args:
        candidates: with the features of ``profile.inputs``.
        profile: of the deployment sample.
        count: how many are wanted.
    """
    most = max(LEAST, TIMES * count)
    if len(candidates) <= most:
        return list(range(len(candidates)))
    return select_matching(candidates, profile.inputs, most)
