"""From a model that another tool quantized to a deploy model, without data or configuration.

The folders are those of a run: what shows and reports a run does so here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.from_qdq_record import FromQdqRecord
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.om_record import OmRecord
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.config import LoadedConfig
from quantflow.errors import fail
from quantflow.graph.bucket import free_dims
from quantflow.graph.bucket_rules import check_buckets
from quantflow.graph.canonical import canonicalize
from quantflow.graph.from_onnx import read_onnx
from quantflow.graph.layers import describe_model
from quantflow.graph.passes.read_qdq import read_qdq
from quantflow.graph.quantized.settle import settle
from quantflow.progress import Progress, no_progress
from quantflow.stages.from_qdq_job import Job
from quantflow.stages.from_qdq_outcome import outcome
from quantflow.stages.given_samples import read_samples
from quantflow.stages.model_inputs import mask_input

RECORD = "from_qdq.json"


@dataclass(frozen=True, slots=True)
class Converted:
    """What came of a quantized file."""

    record: FromQdqRecord
    export: ExportRecord
    om: OmRecord


def from_qdq(
    loaded: LoadedConfig,
    output: Path,
    samples: Path | None = None,
    progress: Progress = no_progress,
) -> Converted:
    """Write `00_model`, `20_ranges`, `40_onnx`, `50_om` and `from_qdq.json`.

    Args:
        loaded: `model.onnx`, `target`, `runtime` and `atc` count.
        output: the directory; one that holds something else is refused.
        samples: an .npz file with one array per input, samples along the first axis; without it,
            the comparison runs on random inputs, and which values leave fp16 is not measured.
        progress: called as work goes on.

    Raises:
        QuantflowError: QF108 for a directory that is in use, or none, QF232 for a model that is not
            quantized, QF230 and QF231 for quantization that cannot be kept, and what stages 0 and
            4 raise.
    """
    run, source = RunDirectory(output), loaded.resolve(loaded.config.model.onnx or "")
    if output.exists() and not output.is_dir():
        fail("QF108", f"{output} is no directory", where=str(output), fix="choose another --output")
    if output.exists() and any(output.iterdir()) and not (output / RECORD).exists():
        what = f"{output} holds something else"
        fail("QF108", what, where=str(output), fix="choose an empty directory for --output")
    progress("reading the file", 0, 4)
    model, record = _read(loaded, source)
    feeds = read_samples(samples, record) if samples is not None else []
    with run.locked():
        run.discard("50_om")
        job = Job(loaded, run, source, model, record, feeds)
        progress("quantization of the file", 1, 4)
        plan, ranges = job.write_model()
        progress("deploy models", 2, 4)
        export = job.write_export(plan, ranges)
        progress("comparing with the file", 3, 4)
        found = outcome(job, export, plan)
        # Last, since what is there is carried off and converted: nothing may fail after it.
        om = job.write_conversion(export, progress)
        found.write(output / RECORD)
        progress("comparing with the file", 4, 4)
    return Converted(found, export, om)


def _read(loaded: LoadedConfig, source: Path) -> tuple[ir.Model, ModelRecord]:
    """The canonical float model of a quantized file, and how its layers were quantized."""
    config = loaded.config
    model = read_onnx(source, config.model.inputs)
    quantized = read_qdq(model)
    if quantized is None:
        what = "the model has no QuantizeLinear or DequantizeLinear"
        fail("QF232", what, where=str(source), fix="`quantflow run` quantizes float models")
    check_buckets(free_dims(model), config.target)
    notes = canonicalize(model, config.target.cann)
    mask = mask_input(config, [str(value.name) for value in model.graph.inputs])
    record = describe_model(model, config.target.buckets[0], mask=mask, notes=notes)
    return model, settle(model, record, quantized).model_copy(update={"origin": source.name})
