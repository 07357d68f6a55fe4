"""One quantized file on its way: the folders that are written for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from quantflow import __version__
from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.digest import path_digest, value_digest
from quantflow.artifacts.export_record import BucketFiles, ExportRecord, LayerFactors
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.om_record import OmRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.ranges_record import Fp16Report, RangesRecord
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.ascend.convert import convert
from quantflow.config import LoadedConfig
from quantflow.export.amct_record import write_record
from quantflow.export.bucket_files import write_bucket
from quantflow.export.deploy import boundaries
from quantflow.export.factors import layer_factors
from quantflow.export.int8_fraction import int8_mac_fraction
from quantflow.graph.edit import opset
from quantflow.graph.float_nodes import float_nodes
from quantflow.graph.from_onnx import external_files
from quantflow.graph.model_io import load_model, save_model
from quantflow.graph.quantized.settle import given_params
from quantflow.progress import Progress
from quantflow.ranges.fp16_safety import find_islands, measure_fp16
from quantflow.ranges.given import given_ranges
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.runner import Feeds
from quantflow.sensitivity.policy import default_plan

FP16_SAMPLES = 16
"""Given samples that every float tensor is measured on."""


@dataclass(frozen=True, slots=True)
class Job:
    """One file on its way.

    Attributes:
        loaded, run: where everything is.
        source: the quantized file.
        model, record: its float model.
        samples: as given, or none.
    """

    loaded: LoadedConfig
    run: RunDirectory
    source: Path
    model: ir.Model
    record: ModelRecord
    samples: Sequence[Feeds]

    def write_model(self) -> tuple[PrecisionPlan, RangesRecord]:
        """Write `00_model` and `20_ranges`; returns the plan and the ranges in force."""
        files = (self.source, *external_files(self.source))
        inputs = {"model.onnx": value_digest([path_digest(file) for file in files])}
        with self.run.writing("00_model", __version__, inputs) as folder:
            save_model(self.model, folder / "model.onnx")
            OnnxRuntimeRunner(folder / "model.onnx", self.loaded.config.runtime, optimize=False)
            self.record.write(folder / "model.json")
        fp16 = self._fp16()
        given = given_params(self.record)
        ranges = RangesRecord(ranges=tuple(given_ranges(given)), nonfinite=())
        with self.run.writing("20_ranges", __version__, self._made_from("00_model")) as folder:
            ranges.write(folder / "ranges.json")
            fp16.write(folder / "fp16.json")
        return default_plan(self.record, fp16, ()), ranges

    def write_export(self, plan: PrecisionPlan, ranges: RangesRecord) -> ExportRecord:
        """Write `40_onnx`."""
        target = self.loaded.config.target
        factors = layer_factors(self.model, self.record, ranges, plan, "per-channel")
        made_from = self._made_from("00_model", "20_ranges")
        with self.run.writing("40_onnx", __version__, made_from) as folder:
            plan.write(folder / "plan.json")
            text = write_record(self.record, factors)
            write_atomically(folder / "amct_record.txt", text.encode())
            buckets = [
                write_bucket(folder, self.model, self.record, plan, factors, dims, target.cann)
                for dims in target.buckets
            ]
            export = self._export_record(folder, factors, buckets)
            export.write(folder / "export.json")
        return export

    def write_conversion(self, export: ExportRecord, progress: Progress) -> OmRecord:
        """Write `50_om`: .om files where atc is at hand, the folder that makes them elsewhere."""
        made_from = self._made_from("00_model", "40_onnx")
        with self.run.writing("50_om", __version__, made_from) as folder:
            source = self.run.folder("40_onnx")
            om = convert(self.loaded, export, source, folder, progress, model=self.record)
            om.write(folder / "om.json")
        return om

    def _made_from(self, *folders: str) -> dict[str, str]:
        manifests = {folder: self.run.manifest(folder) for folder in folders}
        return {folder: x.digest for folder, x in manifests.items() if x is not None}

    def _fp16(self) -> Fp16Report:
        """What fp16 cannot hold, where there are samples to tell by."""
        samples = self.samples[:FP16_SAMPLES]
        if not samples:
            return Fp16Report(samples=0, tensors=(), islands=())
        runtime, first = self.loaded.config.runtime, self.record.inputs[0].shape[0]
        tensors = measure_fp16(
            self.model,
            lambda content: OnnxRuntimeRunner(content, runtime),
            samples,
            batch=first if isinstance(first, int) else runtime.batch,
        )
        islands = find_islands(self.model, tensors)
        return Fp16Report(samples=len(samples), tensors=tuple(tensors), islands=islands)

    def _export_record(
        self, folder: Path, factors: Sequence[LayerFactors], buckets: Sequence[BucketFiles]
    ) -> ExportRecord:
        return ExportRecord(
            opset=opset(self.model),
            int8_mac_fraction=int8_mac_fraction(self.record, factors),
            boundaries=boundaries(load_model(folder / buckets[0].deploy)),
            layers=tuple(factors),
            buckets=tuple(buckets),
            amct_record="amct_record.txt",
            chip=self.loaded.config.target.chip,
            float_nodes=tuple(float_nodes(self.model)),
        )
