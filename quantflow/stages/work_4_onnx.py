"""The work of stage 4: the deploy model for atc, its twins, and the proof of what it computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx_ir as ir

from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.export_record import BucketFiles, ExportRecord, LayerFactors
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.ranges_record import Fp16Report, RangesRecord
from quantflow.artifacts.sample_set import SampleSet
from quantflow.errors import Problem, QuantflowError, did_you_mean
from quantflow.export.amct_record import write_record
from quantflow.export.deploy import boundaries, deploy_model
from quantflow.export.factors import layer_factors
from quantflow.export.int8_fraction import int8_mac_fraction
from quantflow.export.keep_dtype import keep_dtype
from quantflow.export.parity import parity
from quantflow.export.qdq import qdq_model
from quantflow.graph.bucket import bucket_model, bucket_name
from quantflow.graph.edit import opset
from quantflow.graph.model_io import load_model, save_model
from quantflow.runtime.batching import batches
from quantflow.runtime.bucket_run import batch_size, fit_sample
from quantflow.sensitivity.policy import default_plan
from quantflow.stages.stage import Context
from quantflow.target.lint import lint

PARITY_SAMPLES = 8
"""Calibration samples that parity is shown on."""


def work(context: Context, folder: Path) -> None:
    """Write the files of every bucket, `plan.json`, `export.json` and `parity.json`."""
    config = context.config
    record = ModelRecord.read(context.folder("00_model") / "model.json")
    model = load_model(context.folder("00_model") / "model.onnx")
    ranges = RangesRecord.read(context.folder("20_ranges") / "ranges.json")
    plan = _plan_in_force(context, record)
    _check_islands(plan, model)
    plan.write(folder / "plan.json")
    factors = layer_factors(model, record, ranges, plan, config.quantization.weight_granularity)
    write_atomically(folder / "amct_record.txt", write_record(record, factors).encode())
    buckets = list[BucketFiles]()
    for done, dims in enumerate(config.target.buckets):
        context.progress("deploy model and twins", done, len(config.target.buckets))
        buckets.append(_write_bucket(context, folder, model, record, plan, factors, dims))
    context.progress("deploy model and twins", len(buckets), len(buckets))
    first = load_model(folder / buckets[0].deploy)
    ExportRecord(
        opset=opset(model),
        int8_mac_fraction=int8_mac_fraction(record, factors),
        boundaries=boundaries(first),
        layers=tuple(factors),
        buckets=tuple(buckets),
        amct_record="amct_record.txt",
        chip=config.target.chip,
    ).write(folder / "export.json")
    _prove_parity(context, folder, record, buckets[0], factors)


def _plan_in_force(context: Context, record: ModelRecord) -> PrecisionPlan:
    """What stage 3 found, or a person made of it; before stage 3, the default."""
    path = context.folder("30_sweep") / "plan.json"
    if path.exists():
        return PrecisionPlan.read(path)
    fp16 = Fp16Report.read(context.folder("20_ranges") / "fp16.json")
    return default_plan(record, fp16, context.config.plan.pins)


def _check_islands(plan: PrecisionPlan, model: ir.Model) -> None:
    """Raise QF542 for islands that are no nodes of the model, as in a plan with a slip."""
    names = {str(node.name) for node in model.graph}
    problems = [
        Problem("QF542", f"the model has no node {name!r}", "plan.json", did_you_mean(name, names))
        for name in sorted(plan.island_nodes - names)
    ]
    if problems:
        raise QuantflowError(problems)


def _write_bucket(
    context: Context,
    folder: Path,
    model: ir.Model,
    record: ModelRecord,
    plan: PrecisionPlan,
    factors: Sequence[LayerFactors],
    dims: Mapping[str, int],
) -> BucketFiles:
    name = bucket_name(dims)
    static = bucket_model(model, dims)
    deploy = deploy_model(static, record, factors)
    _require_clean(context, deploy, name)
    save_model(static, folder / f"float_{name}.onnx")
    save_model(deploy, folder / f"deploy_{name}.onnx")
    save_model(qdq_model(static, record, factors), folder / f"qdq_{name}.onnx")
    keep = keep_dtype(deploy, plan.island_nodes)
    if keep.text:
        write_atomically(folder / f"keep_dtype_{name}.txt", keep.text.encode())
    return BucketFiles(
        name=name,
        dims=dict(dims),
        input_shapes={
            info.name: tuple(d if isinstance(d, int) else dims[d] for d in info.shape)
            for info in record.inputs
        },
        deploy=f"deploy_{name}.onnx",
        float_twin=f"float_{name}.onnx",
        qdq=f"qdq_{name}.onnx",
        keep_dtype=f"keep_dtype_{name}.txt" if keep.text else None,
        unkept_islands=keep.unnamed,
        op_types=dict(sorted(Counter(node.op_type for node in deploy.graph).items())),
    )


def _require_clean(context: Context, deploy: ir.Model, name: str) -> None:
    """No file counts as written that breaks a rule of the dialect."""
    errors = [f for f in lint(deploy, context.config.target.cann) if f.level == "error"]
    if errors:
        raise QuantflowError(
            [
                Problem(
                    "QF503", f"{f.rule}: {f.what}", where=f"deploy_{name}: {f.where}", fix=f.fix
                )
                for f in errors
            ]
        )


def _prove_parity(
    context: Context,
    folder: Path,
    record: ModelRecord,
    bucket: BucketFiles,
    factors: Sequence[LayerFactors],
) -> None:
    samples = SampleSet(context.folder("10_set") / "calibration").first(PARITY_SAMPLES)
    fitted = (fit_sample(sample, record, bucket.dims) for sample in samples)
    feeds = [batch.feeds for batch in batches(fitted, batch_size(record, bucket.dims))]
    report = parity(
        load_model(folder / bucket.float_twin),
        load_model(folder / bucket.deploy),
        load_model(folder / bucket.qdq),
        record,
        factors,
        feeds,
        context.config.runtime,
    )
    report.write(folder / "parity.json")
