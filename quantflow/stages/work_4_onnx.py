"""The work of stage 4: the deploy model for atc, its twins, and the proof of what it computes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx_ir as ir

from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.export_record import BucketFiles, ExportRecord, LayerFactors, ParityReport
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.ranges_record import RangesRecord
from quantflow.artifacts.sample_set import SampleSet
from quantflow.errors import Problem, QuantflowError, did_you_mean
from quantflow.export.amct_record import write_record
from quantflow.export.bucket_files import write_bucket
from quantflow.export.bucket_parity import all_buckets, cut_to_bucket
from quantflow.export.deploy import boundaries
from quantflow.export.factors import layer_factors
from quantflow.export.fallback_lists import (
    AMCT_FILE,
    MSMODELSLIM_FILE,
    disable_names,
    skip_layers,
)
from quantflow.export.int8_fraction import int8_mac_fraction
from quantflow.export.int8_weights import load_int8_weights
from quantflow.export.mixed_precision import MIXLIST_FILE, PRECISION_FILE, mixed_precision
from quantflow.export.parity import parity
from quantflow.graph.bucket import free_dims
from quantflow.graph.bucket_rules import check_buckets
from quantflow.graph.edit import opset
from quantflow.graph.float_nodes import float_nodes
from quantflow.graph.layer_settings import layer_settings
from quantflow.graph.model_io import load_model
from quantflow.runtime.batching import batches
from quantflow.runtime.bucket_run import batch_size
from quantflow.stages.bucket_shapes import check_shapes
from quantflow.stages.plan_in_force import plan_in_force
from quantflow.stages.stage import Context

PARITY_SAMPLES = 8
"""Calibration samples that parity is shown on."""


def work(context: Context, folder: Path) -> None:
    """Write the files of every bucket, plan, record, parity, and what other tools are told."""
    config = context.config
    quantized = context.quantized_ranges
    record = ModelRecord.read(context.quantized_model / "model.json")
    model = load_model(context.quantized_model / "model.onnx")
    ranges = RangesRecord.read(quantized / "ranges.json")
    weights = load_int8_weights(quantized / "weights.safetensors")
    check_buckets(free_dims(model), config.target)
    check_shapes(model, record, config, start=1)  # others may have been added since stage 0
    plan = plan_in_force(context, record)
    _check_islands(plan, model)
    plan.write(folder / "plan.json")
    granularity = layer_settings(record, config.quantization).granularity
    factors = layer_factors(model, record, ranges, plan, granularity, weights)
    write_atomically(folder / "amct_record.txt", write_record(record, factors).encode())
    write_atomically(folder / AMCT_FILE, skip_layers(record, factors).encode())
    write_atomically(folder / MSMODELSLIM_FILE, disable_names(factors).encode())
    buckets = list[BucketFiles]()
    for done, dims in enumerate(config.target.buckets):
        context.progress("deploy model and twins", done, len(config.target.buckets))
        cann = config.target.cann
        buckets.append(write_bucket(folder, model, record, plan, factors, dims, cann, weights))
    context.progress("deploy model and twins", len(buckets), len(buckets))
    first = load_model(folder / buckets[0].deploy)
    mixed = mixed_precision(first, plan.island_nodes)
    files = {MIXLIST_FILE: mixed.mixlist, PRECISION_FILE: mixed.precision_modes}
    for name, text in files.items():
        if text:
            write_atomically(folder / name, text.encode())
    ExportRecord(
        opset=opset(model),
        int8_mac_fraction=int8_mac_fraction(record, factors),
        boundaries=boundaries(first),
        layers=tuple(factors),
        buckets=tuple(buckets),
        amct_record="amct_record.txt",
        chip=config.target.chip,
        float_nodes=tuple(float_nodes(model)),
        modify_mixlist=MIXLIST_FILE if mixed.mixlist else None,
        op_precision_mode=PRECISION_FILE if mixed.precision_modes else None,
        precision_notes=mixed.notes,
    ).write(folder / "export.json")
    _prove_parity(context, folder, record, buckets, factors)


def _check_islands(plan: PrecisionPlan, model: ir.Model) -> None:
    """Raise QF542 for islands that are no nodes of the model, as in a plan with a slip."""
    names = {str(node.name) for node in model.graph}
    problems = [
        Problem("QF542", f"the model has no node {name!r}", "plan.json", did_you_mean(name, names))
        for name in sorted(plan.island_nodes - names)
    ]
    if problems:
        raise QuantflowError(problems)


def _prove_parity(
    context: Context,
    folder: Path,
    record: ModelRecord,
    buckets: Sequence[BucketFiles],
    factors: Sequence[LayerFactors],
) -> None:
    samples = list(SampleSet(context.folder("10_set") / "calibration").first(PARITY_SAMPLES))
    reports = dict[str, ParityReport]()
    for done, bucket in enumerate(buckets):
        context.progress("parity", done, len(buckets))
        fitted = (cut_to_bucket(sample, record, bucket.dims) for sample in samples)
        size = batch_size(record, bucket.dims)
        reports[bucket.name] = parity(
            load_model(folder / bucket.float_twin),
            load_model(folder / bucket.deploy),
            load_model(folder / bucket.qdq),
            record,
            factors,
            [batch.feeds for batch in batches(fitted, size)],
            context.config.runtime,
        )
    context.progress("parity", len(buckets), len(buckets))
    all_buckets(reports, len(samples)).write(folder / "parity.json")
