"""What a finished run makes of production: profiles of it, and whether the calibration holds."""

from __future__ import annotations

from quantflow.artifacts.coverage_record import CoverageReport
from quantflow.artifacts.hygiene_record import HygieneReport
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.ranges_record import RangesRecord
from quantflow.artifacts.record import worst
from quantflow.artifacts.sample_set import SampleSet
from quantflow.artifacts.watch_record import WatchReport
from quantflow.calibration.deployment import check_features
from quantflow.calibration.drift.report import drift_report
from quantflow.calibration.features.model import ModelFeatures
from quantflow.calibration.features.profile_tensors import tensors_of
from quantflow.calibration.features.table_file import load_table
from quantflow.calibration.preprocess import preprocess_digest
from quantflow.calibration.production import Production, production_of
from quantflow.calibration.profile.leaving import leaving
from quantflow.calibration.profile.profile import Profile
from quantflow.config import SourceConfig
from quantflow.graph.model_io import load_model
from quantflow.ranges.coverage import coverage_of
from quantflow.ranges.histogram_file import load_histograms
from quantflow.stages.pipeline import require_same
from quantflow.stages.stage import Context
from quantflow.stages.stage_0_model import STAGE as MODEL
from quantflow.stages.stage_1_set import STAGE as SET
from quantflow.stages.stage_2_ranges import STAGE as RANGES


def draw_production(
    context: Context, source: SourceConfig, samples: int, *, with_model: bool = True
) -> Production:
    """A draw of production samples, profiled for the model of stage 0.

    Args:
        context: of a run whose stage 0 is finished.
        source: what production sends.
        samples: how many, or all when there are fewer.
        with_model: false to leave out what the model makes of them.

    Raises:
        QuantflowError: QF404 and QF405 without the model, QF104, QF105 and QF301 to QF308.
    """
    context.run.require("00_model", "quantflow prepare")
    record = ModelRecord.read(context.folder("00_model") / "model.json")
    config, features = context.config, None
    if with_model:
        model = load_model(context.folder("00_model") / "model.onnx")
        features = ModelFeatures.of(model, record, config.runtime, config.target.buckets)
    return production_of(
        source,
        samples,
        config,
        context.loaded.base,
        record.inputs,
        features,
        context.model_digest,
        context.progress,
    )


def profile_to_leave(
    context: Context, source: SourceConfig, samples: int, *, with_model: bool = True
) -> Profile:
    """The profile of what `draw_production` draws, as it may leave production.

    Raises:
        QuantflowError: what `draw_production` raises, and QF308 for too few different samples.
    """
    made = draw_production(context, source, samples, with_model=with_model).profile
    record = ModelRecord.read(context.folder("00_model") / "model.json")
    return leaving(made, {tensor.name for tensor in (*record.inputs, *record.outputs)})


def watch(
    context: Context, production: Profile, where: str, hygiene: HygieneReport | None = None
) -> WatchReport:
    """Whether a run's calibration set and ranges still hold for what production sends.

    Args:
        context: of a run whose stages 0 to 2 are finished.
        production: a profile of it.
        where: what names the profile, for messages.
        hygiene: what is wrong with its samples by themselves, where these are there.

    Raises:
        QuantflowError: what `require_calibrated` raises; QF314 for a profile of other features.
    """
    require_calibrated(context)
    table = load_table(context.folder("10_set") / "features.safetensors")
    judged = production
    if judged.model != context.model_digest or not set(judged.names) <= set(table.names):
        judged = judged.without_model()
    check_features(judged, table, where)
    seed = context.config.run.seed
    drift = drift_report(table, judged, seed=seed, candidates=len(table))
    coverage = _coverage(context, production)
    of_ranges = coverage.reasons if coverage else (_unjudged(context, production),)
    findings = hygiene.findings if hygiene else ()
    return WatchReport(
        verdict=worst(
            drift.verdict,
            coverage.verdict if coverage else "warn",
            hygiene.verdict if hygiene else "pass",
        ),
        reasons=(*of_ranges, *drift.reasons, *(x.text for x in findings if x.verdict != "pass")),
        source=production.source,
        samples=production.samples,
        drift=drift,
        coverage=coverage,
        hygiene=hygiene,
    )


def require_calibrated(context: Context) -> None:
    """Refuse a run that is not calibrated with the model and quantization in force.

    Data may have changed: it is production's own that is judged.

    Raises:
        QuantflowError: QF404 and QF405 for a stage that is missing or damaged, QF407 for one that
            was made from something else.
    """
    for stage in (MODEL, SET, RANGES):
        manifest = context.run.require(stage.folder, stage.command)
        if stage is SET:
            settings = context.config.set.preprocess
            wanted = {"set.preprocess": preprocess_digest(settings, context.loaded.base)}
            made = {name: manifest.inputs.get(name, "") for name in wanted}
        else:
            wanted, made = stage.inputs(context), manifest.inputs
        otherwise = ", or give the configuration of the run"
        require_same(context, stage, wanted, made, manifest.version, otherwise)


def _unjudged(context: Context, production: Profile) -> str:
    """Why there is no report on ranges."""
    if production.model and production.model != context.model_digest:
        return "the profile is of another model: ranges were not judged"
    return "the profile holds no activations: ranges were not judged"


def _coverage(context: Context, production: Profile) -> CoverageReport | None:
    """Production's activations against the calibrated ranges; None without activations."""
    record = ModelRecord.read(context.folder("00_model") / "model.json")
    ranges = RangesRecord.read(context.folder("20_ranges") / "ranges.json").ranges
    tensors = [chosen.tensor for chosen in ranges]
    seen = tensors_of(production, context.model_digest, tensors, partly=True)
    if seen is None:
        return None
    calibrated = load_histograms(context.folder("20_ranges") / "histograms.safetensors")
    samples = len(SampleSet(context.folder("10_set") / "calibration"))
    judged = [chosen for chosen in ranges if chosen.tensor in seen.tensors]
    return coverage_of(judged, record.group_of, calibrated["calibration"], samples, seen)
