"""All records of a run directory that belong together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from quantflow.artifacts.comparison import Comparison, Summary
from quantflow.artifacts.export_record import ExportRecord, ParityReport
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.om_record import OmRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.ranges_record import ClippingReport, Fp16Report, RangesRecord
from quantflow.artifacts.record import Record
from quantflow.artifacts.run_directory import RunDirectory, StageManifest
from quantflow.artifacts.sample_set import SetRecord

R = TypeVar("R", bound=Record)

FOLDERS = ("00_model", "10_set", "20_ranges", "30_sweep", "40_onnx", "45_compare", "50_om")
"""Stage folders in pipeline order."""

SET_NAMES = ("calibration", "heldout", "evaluation", "task")


@dataclass(frozen=True, slots=True)
class Artifacts:
    """What the stages wrote; None where a stage has not run, or ran on something else.

    Attributes:
        outdated: folders left out, since a stage they were made from has changed since.
    """

    model: ModelRecord | None = None
    sets: tuple[SetRecord, ...] = ()
    ranges: RangesRecord | None = None
    clipping: ClippingReport | None = None
    fp16: Fp16Report | None = None
    plan: PrecisionPlan | None = None
    export: ExportRecord | None = None
    parity: ParityReport | None = None
    om: OmRecord | None = None
    comparison: Comparison | None = None
    summary: Summary | None = None
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
    outdated = _outdated(manifests)
    usable = {folder for folder in only if manifests[folder] and folder not in outdated}

    def read(kind: type[R], folder: str, name: str) -> R | None:
        path = run.folder(folder) / name
        return kind.read(path) if folder in usable and path.exists() else None

    sets = (read(SetRecord, "10_set", f"{name}/set.json") for name in SET_NAMES)
    return Artifacts(
        model=read(ModelRecord, "00_model", "model.json"),
        sets=tuple(record for record in sets if record is not None),
        ranges=read(RangesRecord, "20_ranges", "ranges.json"),
        clipping=read(ClippingReport, "20_ranges", "clipping.json"),
        fp16=read(Fp16Report, "20_ranges", "fp16.json"),
        plan=read(PrecisionPlan, "40_onnx", "plan.json"),
        export=read(ExportRecord, "40_onnx", "export.json"),
        parity=read(ParityReport, "40_onnx", "parity.json"),
        om=read(OmRecord, "50_om", "om.json"),
        comparison=read(Comparison, "45_compare", "comparison.json"),
        summary=_summary(run.root / "summary.json") if "45_compare" in usable else None,
        outdated=tuple(folder for folder in FOLDERS if folder in outdated),
    )


def _summary(path: Path) -> Summary | None:
    return Summary.read(path) if path.exists() else None


def _outdated(manifests: dict[str, StageManifest | None]) -> set[str]:
    """Folders whose inputs, direct or not, are no longer what is in the run directory."""
    outdated = set[str]()
    for folder, manifest in manifests.items():
        if manifest is None:
            continue
        for name in set(manifest.inputs) & set(FOLDERS):
            source = manifests[name]
            digest = source.digest if source is not None else ""
            if name in outdated or digest != manifest.inputs[name]:
                outdated.add(folder)
    return outdated
