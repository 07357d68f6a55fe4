"""The activations in a profile, as a pass over deployment samples would have found them."""

from __future__ import annotations

from collections.abc import Iterable

from quantflow.calibration.profile.profile import Profile
from quantflow.ranges.collect import Collection, TensorStatistics


def tensors_of(profile: Profile, model: str, tensors: Iterable[str]) -> Collection | None:
    """Statistics of a model's tensors in deployment, without ids and rows.

    Args:
        profile: of deployment.
        model: digest of the model's file.
        tensors: their names.

    Returns:
        None when the profile is of another model, or lacks a tensor.
    """
    wanted = tuple(tensors)
    if profile.model != model or not profile.tensors.keys() >= set(wanted):
        return None
    return Collection({name: _statistics(profile, name) for name in wanted}, ())


def _statistics(profile: Profile, name: str) -> TensorStatistics:
    seen = profile.tensors[name]
    return TensorStatistics(
        histogram=seen.histogram,
        sample_low=seen.sample_low,
        sample_high=seen.sample_high,
        nonfinite_samples=(),
        rows={},
        channel_absmax=seen.channel_absmax,
    )
