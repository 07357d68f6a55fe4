"""All records of a run directory that belong together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from quantflow.artifacts.comparison import Comparison, Summary
from quantflow.artifacts.coverage_record import CoverageReport
from quantflow.artifacts.diagnosis_record import DiagnosisRecord
from quantflow.artifacts.digest import file_digest
from quantflow.artifacts.drift_record import DriftReport
from quantflow.artifacts.export_record import ExportRecord, ParityReport
from quantflow.artifacts.hygiene_record import HygieneReport
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.om_record import OmRecord
from quantflow.artifacts.optimize_record import OptimizeRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.provenance import Provenance, read_provenance
from quantflow.artifacts.ranges_record import ClippingReport, Fp16Report, RangesRecord
from quantflow.artifacts.record import Record
from quantflow.artifacts.run_directory import RunDirectory, StageManifest
from quantflow.artifacts.sample_set import SetRecord
from quantflow.artifacts.stability_record import StabilityReport
from quantflow.artifacts.sweep_record import SweepRecord
from quantflow.artifacts.timings import read_timings

R = TypeVar("R", bound=Record)

FOLDERS = (
    "00_model",
    "10_set",
    "20_ranges",
    "25_optimize",
    "30_sweep",
    "40_onnx",
    "45_compare",
    "46_diagnosis",
    "50_om",
)
"""Stage folders in pipeline order."""

PLAN = "plan.json"
SUMMARY = "summary.json"

SET_NAMES = (
    *("calibration", "heldout", "evaluation", "deployment"),
    *("task", "queries", "documents"),
)


@dataclass(frozen=True, slots=True)
class Artifacts:
    """What the stages wrote; None where a stage has not run, or ran on something else.

    Attributes:
        plan: the one in force: what stage 3 wrote, as edited since; before it has run, what stage 4
            took instead.
        plan_edited: whether a person has changed the plan since stage 3 wrote it.
        summary: None until `quantflow.stages.summary` has made it of the others.
        histograms, channel_absmax: files of stage 2 with more on every tensor.
        manifests: of the stages, by folder.
        provenance: with what they were made, as far as that was noted.
        timings: how long they took, as `read_timings` gives it.
        outdated: folders left out, since a stage they were made from has changed since.
    """

    model: ModelRecord | None = None
    sets: tuple[SetRecord, ...] = ()
    drift: DriftReport | None = None
    hygiene: HygieneReport | None = None
    ranges: RangesRecord | None = None
    clipping: ClippingReport | None = None
    coverage: CoverageReport | None = None
    stability: StabilityReport | None = None
    fp16: Fp16Report | None = None
    optimize: OptimizeRecord | None = None
    histograms: Path | None = None
    channel_absmax: Path | None = None
    sweep: SweepRecord | None = None
    plan: PrecisionPlan | None = None
    plan_edited: bool = False
    export: ExportRecord | None = None
    parity: ParityReport | None = None
    om: OmRecord | None = None
    comparison: Comparison | None = None
    diagnosis: DiagnosisRecord | None = None
    summary: Summary | None = None
    manifests: Mapping[str, StageManifest] = field(default_factory=dict[str, StageManifest])
    provenance: Provenance = field(default_factory=Provenance)
    timings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    outdated: tuple[str, ...] = ()


def read_artifacts(run: RunDirectory, only: Collection[str] = FOLDERS) -> Artifacts:
    """Read what is there and belongs together.

    Args:
        run: where.
        only: folders to read.

    Raises:
        QuantflowError: QF402 when a file does not hold its record.
    """
    manifests = {folder: run.manifest(folder) for folder in FOLDERS}
    outdated = _outdated(run, manifests)
    usable = {folder for folder in only if manifests[folder] and folder not in outdated}

    def file(folder: str, name: str) -> Path | None:
        path = run.folder(folder) / name
        return path if folder in usable and path.exists() else None

    def read(kind: type[R], folder: str, name: str) -> R | None:
        path = file(folder, name)
        return kind.read(path) if path is not None else None

    noted = read_provenance(run.root)
    sets = (read(SetRecord, "10_set", f"{name}/set.json") for name in SET_NAMES)
    sweep, planned = read(SweepRecord, "30_sweep", "sweep.json"), run.folder("30_sweep") / PLAN
    return Artifacts(
        model=read(ModelRecord, "00_model", "model.json"),
        sets=tuple(record for record in sets if record is not None),
        drift=read(DriftReport, "10_set", "drift.json"),
        hygiene=read(HygieneReport, "10_set", "hygiene.json"),
        ranges=read(RangesRecord, "20_ranges", "ranges.json"),
        clipping=read(ClippingReport, "20_ranges", "clipping.json"),
        coverage=read(CoverageReport, "20_ranges", "coverage.json"),
        stability=read(StabilityReport, "20_ranges", "stability.json"),
        fp16=read(Fp16Report, "20_ranges", "fp16.json"),
        optimize=read(OptimizeRecord, "25_optimize", "optimize.json"),
        histograms=file("20_ranges", "histograms.safetensors"),
        channel_absmax=file("20_ranges", "channel_absmax.safetensors"),
        sweep=sweep,
        plan=read(PrecisionPlan, "30_sweep", PLAN) or read(PrecisionPlan, "40_onnx", PLAN),
        plan_edited=sweep is not None and _digest(planned) != sweep.plan_digest,
        export=read(ExportRecord, "40_onnx", "export.json"),
        parity=read(ParityReport, "40_onnx", "parity.json"),
        om=read(OmRecord, "50_om", "om.json"),
        comparison=read(Comparison, "45_compare", "comparison.json"),
        diagnosis=read(DiagnosisRecord, "46_diagnosis", "diagnosis.json"),
        manifests={name: x for name, x in manifests.items() if x and name in usable},
        provenance=noted.of({name: _digest_of(manifests[name]) for name in usable}),
        timings=read_timings(run.root),
        outdated=tuple(folder for folder in FOLDERS if folder in outdated),
    )


def _outdated(run: RunDirectory, manifests: dict[str, StageManifest | None]) -> set[str]:
    """Folders whose inputs, direct or not, are no longer what is in the run directory."""
    outdated = set[str]()
    for folder, manifest in manifests.items():
        if manifest is None:
            continue
        for name, digest in manifest.inputs.items():
            source, _, file = name.partition("/")
            if source not in manifests:
                continue
            now = _digest(run.root / name) if file else _digest_of(manifests[source])
            if digest != ("" if source in outdated else now):  # what is outdated is not there
                outdated.add(folder)
    return outdated


def _digest_of(manifest: StageManifest | None) -> str:
    return manifest.digest if manifest is not None else ""


def _digest(path: Path) -> str:
    return file_digest(path) if path.exists() else ""
