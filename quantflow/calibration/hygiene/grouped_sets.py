"""What was seen of some sets, and which of their samples belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from quantflow.calibration.hygiene.fingerprints import Fingerprints, join, near_groups
from quantflow.calibration.hygiene.unfit import Unfit


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a set.

    Attributes:
        prints: its samples.
        unfit: samples that were left out of it, since nothing usable is in them.
        passed: ids of samples that were left out, since the evaluation data holds the same.
    """

    prints: Fingerprints
    unfit: tuple[Unfit, ...] = ()
    passed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupedSet:
    """A set with the groups of its N samples.

    Attributes:
        name: of the set.
        seen: what was seen of it.
        ids: ``(N,)`` names of its samples.
        exact: ``(N,)`` names of groups with equal content.
        near: ``(N,)`` names of groups of near duplicates, the same in all sets; equal content is
            in the same.
    """

    name: str
    seen: Seen
    ids: tuple[str, ...]
    exact: tuple[str, ...]
    near: tuple[str, ...]

    @property
    def noun(self) -> str:
        """What its samples are called."""
        return self.name if self.name == "candidates" else f"{self.name} samples"


def grouped_sets(sets: Mapping[str, Seen]) -> dict[str, GroupedSet]:
    """All sets, with groups of near duplicates that reach across them.

    Args:
        sets: by name, seen with the same inputs of a model.
    """
    if not sets:
        return {}
    infos = [info for seen in sets.values() for info in seen.prints.infos]
    ids, exact = tuple(info.id for info in infos), tuple(info.digest for info in infos)
    near = near_groups(join([seen.prints for seen in sets.values()]))
    families = tuple(map(str, _with_exact(near, exact).tolist()))
    ends = np.cumsum([0, *(len(seen.prints) for seen in sets.values())]).tolist()
    return {
        name: GroupedSet(name, seen, ids[start:end], exact[start:end], families[start:end])
        for (name, seen), (start, end) in zip(sets.items(), pairwise(ends), strict=True)
    }


def _with_exact(near: NDArray[np.intp], digests: Sequence[str]) -> NDArray[np.intp]:
    """Groups in which equal samples are always together, also those without a signature."""
    first = dict[str, int]()
    return np.array([first.setdefault(x, int(g)) for x, g in zip(digests, near, strict=True)])
