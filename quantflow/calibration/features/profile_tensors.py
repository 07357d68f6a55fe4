"""The activations in a profile, as a pass over deployment samples would have found them."""

from __future__ import annotations

from collections.abc import Iterable

from quantflow.calibration.profile.profile import Profile
from quantflow.ranges.collect import Collection, TensorStatistics


def tensors_of(
    profile: Profile, model: str, tensors: Iterable[str], *, partly: bool = False
) -> Collection | None:
    """Statistics of a model's tensors in deployment, without ids, rows and channels.

    Args:
        profile: of deployment.
        model: digest of the model's file.
        tensors: their names.
        partly: whether those will do that the profile holds: inputs and outputs of the model are
            left out of a profile that leaves production.

    Returns:
        None when the profile is of another model, or lacks a tensor, `partly` all of them.
    """
    wanted = tuple(tensors)
    there = tuple(name for name in wanted if name in profile.tensors)
    if profile.model != model or not there or (there != wanted and not partly):
        return None
    return Collection({name: _statistics(profile, name) for name in there}, ())


def _statistics(profile: Profile, name: str) -> TensorStatistics:
    seen = profile.tensors[name]
    return TensorStatistics(
        histogram=seen.histogram,
        sample_low=seen.sample_low,
        sample_high=seen.sample_high,
        nonfinite_samples=(),
        rows={},
    )
