"""What fp16 cannot hold of a float model, on some calibration samples."""

from __future__ import annotations

import onnx_ir as ir

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.ranges_record import Fp16Report
from quantflow.artifacts.sample_set import SampleSet
from quantflow.ranges.fp16_safety import find_islands, measure_fp16
from quantflow.stages.collecting import compute_batch, open_runner
from quantflow.stages.stage import Context

FP16_SAMPLES = 16
"""Calibration samples that every float tensor is measured on."""


def fp16_report(context: Context, model: ir.Model, record: ModelRecord) -> Fp16Report:
    """Measure every float tensor, and find the fp32 islands that follow."""
    samples = SampleSet(context.folder("10_set") / "calibration")
    count = min(FP16_SAMPLES, len(samples))
    tensors = measure_fp16(
        model,
        lambda instrumented: open_runner(context, instrumented),
        samples.first(count),
        batch=compute_batch(context, record),
        progress=context.progress,
        workers=context.workers,
    )
    return Fp16Report(samples=count, tensors=tuple(tensors), islands=find_islands(model, tensors))
