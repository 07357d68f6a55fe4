"""A profile of production samples, apart from any run's sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from quantflow.artifacts.model_record import TensorInfo
from quantflow.calibration.deployment import profile_of
from quantflow.calibration.draw import Batch, Pool, draw, shuffled
from quantflow.calibration.features.measure import Measurer, extractor_of
from quantflow.calibration.features.model import ModelFeatures
from quantflow.calibration.features.table import FeatureTable, concatenate
from quantflow.calibration.plans import STREAMS
from quantflow.calibration.preprocess import make_preprocessor
from quantflow.calibration.profile.profile import Profile
from quantflow.calibration.sources import describe, read_records
from quantflow.config import Config, SourceConfig
from quantflow.progress import Progress, no_progress


def profile_source(
    source: SourceConfig,
    count: int,
    config: Config,
    base: Path,
    inputs: Sequence[TensorInfo],
    model: ModelFeatures | None,
    model_digest: str,
    progress: Progress = no_progress,
) -> Profile:
    """The profile of a random draw of a source's records.

    Args:
        source: what production sends.
        count: how many samples, or all records when there are fewer.
        config: the sections `set.preprocess` and `run.seed` count.
        base: directory that relative paths and modules start from.
        inputs: the model's inputs, with the batch axis.
        model: what the model makes of samples, or None to leave it out.
        model_digest: of the model's file.
        progress: called after some samples.

    Raises:
        QuantflowError: QF104, QF105 and QF301 to QF308.
    """
    settings = config.set.preprocess
    preprocess = make_preprocessor(settings, inputs, base)
    records = read_records(source, base, settings.column)
    order = shuffled(len(records), seed=config.run.seed, stream=STREAMS["deployment"])
    extract = extractor_of(settings, inputs, base)
    parts: list[FeatureTable] = []

    def observe(batch: Batch) -> None:
        parts.append(extract(batch))

    count = min(count, len(records))
    drawn = draw(
        Pool("deployment", records, order, settings.column),
        count,
        preprocess,
        observe=observe,
        tick=lambda done: progress("deployment samples", done, count),
    )
    measure = Measurer(extract, model, model_digest)
    measured = measure(concatenate(parts), drawn.samples, "deployment", progress)
    return profile_of(measured, model_digest, f"{describe(source)}, seed {config.run.seed}")
