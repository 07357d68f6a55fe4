"""What a run knows of production: a profile, made of deployment samples or read from a file."""

from __future__ import annotations

from pathlib import Path

from quantflow.calibration.features.measure import Measured
from quantflow.calibration.features.table import FeatureTable
from quantflow.calibration.profile.leaving import short_source
from quantflow.calibration.profile.profile import Profile, make_profile
from quantflow.calibration.profile.profile_file import load_profile
from quantflow.errors import fail
from quantflow.printable import printable


def profile_of(measured: Measured, model: str, source: str) -> Profile:
    """The profile of deployment samples.

    Args:
        measured: their features.
        model: digest of the model, where it was run on them.
        source: where the samples came from; of a path, its last part is kept.
    """
    return make_profile(
        measured.table,
        measured.inputs,
        model=model if measured.tensors else "",
        source=printable(short_source(source)),
        tensors=measured.tensors,
    )


def read_profile(path: Path, model: str) -> Profile:
    """The profile in a file; what it says of another model is left out.

    Args:
        path: of the file.
        model: digest of the model that is quantized.

    Raises:
        QuantflowError: QF313 when it is none.
    """
    profile = load_profile(path)
    return profile if profile.model == model else profile.without_model()


def check_features(profile: Profile, samples: FeatureTable, where: str) -> None:
    """Refuse a profile of features that the samples to be judged by it do not have.

    Args:
        profile: of production.
        samples: with all their features.
        where: what names the profile.

    Raises:
        QuantflowError: QF314.
    """
    lacking = [name for name in profile.names if name not in samples.names]
    for theirs, ours in (
        (profile.counts, samples.counts),
        (profile.categories, samples.categories),
    ):
        lacking += [x for x in theirs if x not in ours or ours[x].shape[1] != theirs[x].shape[1]]
    if lacking:
        names = ", ".join(printable(name, 80) for name in lacking[:5])
        fail(
            "QF314",
            f"the profile holds features that the samples lack: {names}",
            where=where,
            fix="make the profile with the same inputs, tokenizer and text column",
        )
