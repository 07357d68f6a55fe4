"""What a profile must be like to leave production."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import PurePosixPath

from quantflow.calibration.profile.profile import Profile
from quantflow.errors import fail

LEAST_DISTINCT = 32
"""Different samples of a profile that leaves production: each block holds four of them or more."""


def leaving(profile: Profile, ends: Collection[str]) -> Profile:
    """The profile as it may leave production.

    Args:
        profile: of production.
        ends: names of the model's inputs and outputs, whose values are production's own data.

    Raises:
        QuantflowError: QF308 for so few different samples that single ones could be told.
    """
    if profile.distinct < LEAST_DISTINCT:
        fail(
            "QF308",
            f"only {profile.distinct} of the {profile.samples} samples that were read differ for "
            f"the model: a profile takes {LEAST_DISTINCT}, so that none of its histograms is of "
            "fewer than 4 and shows a single sample",
            where=profile.source,
            fix="read more: a longer source, --samples or set.deployment_samples; where many were "
            "read, see whether the tokenizer or preprocessing makes them all the same",
        )
    kept = {name: tensor for name, tensor in profile.tensors.items() if name not in ends}
    return replace(profile, tensors=kept, source=_without_ids(profile.source))


def short_source(source: str) -> str:
    """A description of a source with the last part of its path alone.

    Args:
        source: such as ``jsonl /data/today.jsonl, seed 0``.
    """
    kind, _, rest = source.partition(" ")
    place, comma, seed = rest.rpartition(", seed ")
    place = (place if comma else seed).replace("\\", "/")
    return f"{kind} {PurePosixPath(place).name}{comma}{seed if comma else ''}".rstrip()


def _without_ids(source: str) -> str:
    """Remarks behind a ``;`` without what they list behind a ``:``, such as names of records."""
    head, mark, remark = source.partition("; ")
    return f"{head}{mark}{remark.partition(':')[0]}"
