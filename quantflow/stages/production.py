"""What a finished run makes of production: profiles of it, and whether the calibration holds."""

from __future__ import annotations

from quantflow.artifacts.coverage_record import CoverageReport
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
from quantflow.calibration.production import profile_source
from quantflow.calibration.profile.profile import Profile
from quantflow.config import SourceConfig
from quantflow.graph.model_io import load_model
from quantflow.ranges.coverage import coverage_of
from quantflow.ranges.histogram_file import load_histograms
from quantflow.stages.stage import Context


def profile_production(
    context: Context, source: SourceConfig, samples: int, *, with_model: bool = True
) -> Profile:
    """The profile of a draw of production samples, for the model of stage 0.

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
    return profile_source(
        source,
        samples,
        config,
        context.loaded.base,
        record.inputs,
        features,
        context.model_digest,
        context.progress,
    )


def watch(context: Context, production: Profile, where: str) -> WatchReport:
    """Whether a run's calibration set and ranges still hold for what production sends.

    Args:
        context: of a run whose stages 0 to 2 are finished.
        production: a profile of it.
        where: what names the profile, for messages.

    Raises:
        QuantflowError: QF404 and QF405 for a stage that is missing or damaged, QF314 for a profile
            of other features.
    """
    for folder, command in _NEEDED.items():
        context.run.require(folder, command)
    table = load_table(context.folder("10_set") / "features.safetensors")
    judged = production
    if judged.model != context.model_digest or not set(judged.names) <= set(table.names):
        judged = judged.without_model()
    check_features(judged, table, where)
    seed = context.config.run.seed
    drift = drift_report(table, judged, seed=seed, candidates=len(table))
    coverage = _coverage(context, production)
    return WatchReport(
        verdict=worst(drift.verdict, coverage.verdict if coverage else "pass"),
        reasons=(*(coverage.reasons if coverage else ()), *drift.reasons),
        source=production.source,
        samples=production.samples,
        drift=drift,
        coverage=coverage,
    )


_NEEDED = {
    "00_model": "quantflow prepare",
    "10_set": "quantflow build-set",
    "20_ranges": "quantflow calibrate",
}


def _coverage(context: Context, production: Profile) -> CoverageReport | None:
    """Production's activations against the calibrated ranges; None without activations."""
    record = ModelRecord.read(context.folder("00_model") / "model.json")
    ranges = RangesRecord.read(context.folder("20_ranges") / "ranges.json").ranges
    tensors = [chosen.tensor for chosen in ranges]
    seen = tensors_of(production, context.model_digest, tensors)
    if seen is None:
        return None
    calibrated = load_histograms(context.folder("20_ranges") / "histograms.safetensors")
    samples = len(SampleSet(context.folder("10_set") / "calibration"))
    return coverage_of(ranges, record.group_of, calibrated["calibration"], samples, seen)
