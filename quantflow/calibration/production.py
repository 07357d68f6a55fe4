"""A profile of production samples, apart from any run's sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from quantflow.artifacts.hygiene_record import HygieneReport
from quantflow.artifacts.model_record import TensorInfo
from quantflow.calibration.deployment import profile_of
from quantflow.calibration.draw import Batch, Pool, draw, shuffled
from quantflow.calibration.features.measure import Measurer, extractor_of
from quantflow.calibration.features.model import ModelFeatures
from quantflow.calibration.features.table import FeatureTable, concatenate
from quantflow.calibration.hygiene.findings import hygiene_report
from quantflow.calibration.hygiene.fingerprints import Fingerprints, fingerprints, join
from quantflow.calibration.hygiene.grouped_sets import Seen
from quantflow.calibration.hygiene.unfit import Unfit
from quantflow.calibration.plans import STREAMS
from quantflow.calibration.preprocess import make_preprocessor
from quantflow.calibration.profile.profile import Profile
from quantflow.calibration.sources import describe, read_records
from quantflow.config import Config, SourceConfig
from quantflow.progress import Progress, no_progress

_NAMED = 5


@dataclass(frozen=True, slots=True)
class Production:
    """What is known of a draw of production samples.

    Attributes:
        profile: of those that are usable.
        hygiene: what is wrong with samples by themselves; those left out are named there.
    """

    profile: Profile
    hygiene: HygieneReport


def production_of(
    source: SourceConfig,
    count: int,
    config: Config,
    base: Path,
    inputs: Sequence[TensorInfo],
    model: ModelFeatures | None,
    model_digest: str,
    progress: Progress = no_progress,
) -> Production:
    """A random draw of a source's records; single ones that hold nothing usable are left out.

    Args:
        source: what production sends.
        count: how many samples, or all usable records when there are fewer.
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
    parts, prints = list[FeatureTable](), list[Fingerprints]()

    def observe(batch: Batch) -> None:
        parts.append(extract(batch))
        prints.append(fingerprints(batch.infos, batch.samples, extract.inputs))

    count = min(count, len(records))
    drawn = draw(
        Pool("deployment", records, order, settings.column),
        count,
        preprocess,
        least=1,
        observe=observe,
        leave_unfit=True,
        tick=lambda done: progress("deployment samples", done, count),
    )
    measure = Measurer(extract, model, model_digest)
    measured = measure(concatenate(parts), drawn.samples, "deployment", progress)
    origin = f"{describe(source)}, seed {config.run.seed}{_left_out(drawn.unfit)}"
    return Production(
        profile=profile_of(measured, model_digest, origin),
        hygiene=hygiene_report({"deployment": Seen(join(prints), drawn.unfit)}),
    )


def _left_out(unfit: Sequence[Unfit]) -> str:
    """How many records were left out, and which, for whoever reads where samples come from."""
    if not unfit:
        return ""
    more = ", ..." if len(unfit) > _NAMED else ""
    named = ", ".join(one.id for one in unfit[:_NAMED])
    return f"; {len(unfit)} left out, empty or not finite: {named}{more}"
