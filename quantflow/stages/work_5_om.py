"""The work of stage 5: an .om file, or everything that is needed to make and check one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from quantflow.artifacts.comparison import Comparison
from quantflow.artifacts.export_record import BucketFiles, ExportRecord
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.sample_set import SampleSet
from quantflow.ascend.command import in_graph_order
from quantflow.ascend.convert import convert
from quantflow.ascend.readme import write_readme
from quantflow.errors import QuantflowError
from quantflow.evaluation.precisions import open_int8
from quantflow.graph.model_io import load_model
from quantflow.runtime.bucket_run import bucket_batches, fit_sample
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.runner import Feeds
from quantflow.stages.stage import Context
from quantflow.stages.stage_5_om import comparison_digest


def work(context: Context, folder: Path) -> None:
    """Write the hand-over folder with samples and `README.txt`, `om.json`, and any .om files."""
    model = ModelRecord.read(context.folder("00_model") / "model.json")
    export_dir = context.folder("40_onnx")
    export = in_graph_order(ExportRecord.read(export_dir / "export.json"), model)
    missing = list[str]()
    for done, bucket in enumerate(export.buckets):
        context.progress("samples to check the .om with", done, len(export.buckets))
        if not _write_samples(context, folder, model, bucket):
            missing.append(bucket.name)
    context.progress("samples to check the .om with", len(export.buckets), len(export.buckets))
    record = convert(context.loaded, export, export_dir, folder, context.progress)
    path = context.folder("45_compare") / "comparison.json"
    comparison = Comparison.read(path) if comparison_digest(context) else None
    write_readme(folder, record.status, export.buckets, missing, comparison)
    record.write(folder / "om.json")


def _write_samples(context: Context, folder: Path, model: ModelRecord, bucket: BucketFiles) -> bool:
    """Write the first compute batch of evaluation samples and its outputs; false if none fits."""
    export_dir, config = context.folder("40_onnx"), context.config
    samples = _fitting(SampleSet(context.folder("10_set") / "evaluation"), model, bucket)
    batch = next(bucket_batches(samples, model, bucket.dims), None)
    if batch is None:
        return False
    plan = PrecisionPlan.read(export_dir / "plan.json")
    runners = {
        "int8": open_int8(export_dir, bucket, plan, config.target, config.runtime),
        "fp32": OnnxRuntimeRunner(load_model(export_dir / bucket.float_twin), config.runtime),
    }
    arrays = {f"input/{info.name}": batch.feeds[info.name] for info in model.inputs}
    for name, runner in runners.items():
        values = runner.run(batch.feeds)
        arrays |= {f"{name}/{info.name}": values[info.name] for info in model.outputs}
    np.savez(folder / f"samples_{bucket.name}.npz", allow_pickle=False, **arrays)
    return True


def _fitting(samples: Iterable[Feeds], model: ModelRecord, bucket: BucketFiles) -> Iterator[Feeds]:
    """The samples that the bucket holds; only the first bucket is sure to hold them all."""
    for sample in samples:
        try:
            fit_sample(sample, model, bucket.dims)
        except QuantflowError:
            continue
        yield sample
