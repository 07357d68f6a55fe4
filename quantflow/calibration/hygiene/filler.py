"""Padding that no mask marks: most samples begin or end with one token, many times."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from quantflow.calibration.hygiene.fingerprints import NO_FILLER, Fingerprints

FILLED = 0.5
"""Share of the samples that begin or end with the same repeated token, as if padded by it."""

RUN = 4
"""How often the token is repeated in the middle one of these samples, at least: texts may well end
in two line breaks."""


class Filler(NamedTuple):
    """A token that samples seem to be padded by, and their positions, ascending."""

    token: int
    places: list[int]


def filler_of(prints: Fingerprints) -> Filler | None:
    """What the samples of a set seem to be padded by, among the positions that a mask keeps.

    None where fewer than `FILLED` of them have it, or where it is hardly repeated.
    """
    tokens, counts = np.unique(prints.filler[prints.filler != NO_FILLER], return_counts=True)
    if not len(tokens) or counts.max() < FILLED * len(prints):
        return None
    token = int(tokens[counts.argmax()])
    places = np.flatnonzero(prints.filler == token).tolist()
    return Filler(token, places) if np.median(prints.run[places]) >= RUN else None
