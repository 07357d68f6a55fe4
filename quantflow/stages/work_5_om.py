"""The work of stage 5: an .om file, or everything that is needed to make and check one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from quantflow.artifacts.comparison import Comparison
from quantflow.artifacts.export_record import BucketFiles, ExportRecord
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.om_record import Conversion, OmRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.sample_set import SampleSet
from quantflow.ascend.collect import Collected
from quantflow.ascend.command import in_graph_order
from quantflow.ascend.convert import Take, convert, nothing_there
from quantflow.ascend.environment import find_atc
from quantflow.ascend.planned import PlannedConversion
from quantflow.ascend.preflight import is_int8
from quantflow.ascend.readme import write_readme
from quantflow.ascend.required_options import require_options
from quantflow.ascend.take_over import same_conversion, take_over
from quantflow.errors import QuantflowError
from quantflow.evaluation.precisions import open_int8
from quantflow.graph.model_io import load_model
from quantflow.runtime.bucket_run import bucket_batches, fit_sample
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.runner import Feeds
from quantflow.stages.stage import Context
from quantflow.stages.stage_5_om import comparison_digest


def work(context: Context, folder: Path) -> None:
    """Write the hand-over folder with samples and `README.txt`, `om.json`, and any .om files.

    What was converted already, from the same files with the same arguments, is kept: on another
    machine, until --force where atc is at hand; here, also until another atc is. Where converting
    it again fails, it is kept as well.
    """
    spare = _earlier(replace(context, force=False), of_any_atc=True)
    _write(context, folder, take=_earlier(context), spare=spare)


def collect(context: Context, folder: Path, directory: Path) -> None:
    """Write the same, with the .om files that `convert.py` made in `directory`.

    Raises:
        QuantflowError: QF411 or QF412 when its result cannot be read, or is not of this run.
    """
    collected = Collected(directory, context.config.target.chip)
    earlier = _earlier(replace(context, force=False))

    def take(planned: PlannedConversion, folder: Path) -> Conversion | None:
        found = collected.take(planned, folder)
        if found is not None and found.status == "converted":
            return found
        return earlier(planned, folder) or found

    _write(context, folder, take=take, collected=collected)


def _earlier(context: Context, *, of_any_atc: bool = False) -> Take:
    """Gives what the stage's present folder holds of a conversion."""
    source, chip = context.folder("50_om"), context.config.target.chip
    atc = find_atc(context.loaded)
    try:
        manifest = context.run.manifest("50_om")
        rows = OmRecord.read(source / "om.json").conversions if manifest else ()
    except QuantflowError:  # damaged, or of another version: it is made anew
        return nothing_there
    made_with = manifest.inputs.get("atc found at") if manifest else ""
    known = {
        row.name: row for row in rows if row.elsewhere or of_any_atc or atc in (None, made_with)
    }

    def take(planned: PlannedConversion, folder: Path) -> Conversion | None:
        row = known.get(planned.name)
        if row is None or row.status != "converted" or not same_conversion(row, planned):
            return None
        try:
            return take_over(source, row, planned, folder, chip)
        except QuantflowError:  # damaged: it is converted again
            return None

    return nothing_there if context.force and atc is not None else take


def _write(
    context: Context,
    folder: Path,
    *,
    take: Take,
    spare: Take = nothing_there,
    collected: Collected | None = None,
) -> None:
    model = ModelRecord.read(context.folder("00_model") / "model.json")
    export_dir = context.folder("40_onnx")
    export = in_graph_order(ExportRecord.read(export_dir / "export.json"), model)
    require_options(context.loaded, int8=any(map(is_int8, export.buckets)))
    missing = list[str]()
    for done, bucket in enumerate(export.buckets):
        context.progress("samples to check the .om with", done, len(export.buckets))
        if not _write_samples(context, folder, model, bucket):
            missing.append(bucket.name)
    context.progress("samples to check the .om with", len(export.buckets), len(export.buckets))
    record = convert(
        context.loaded,
        export,
        export_dir,
        folder,
        context.progress,
        model=model,
        take=take,
        spare=spare,
        start_atc=collected is None,
    )
    if collected is not None:
        collected.require_agreement()
        record = record.model_copy(update={"rejected": tuple(collected.findings)})
    path = context.folder("45_compare") / "comparison.json"
    comparison = Comparison.read(path) if comparison_digest(context) else None
    write_readme(folder, record, missing, comparison)
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
