"""A deploy model against the quantized file that it was made from.

The file runs in onnxruntime as it is written, without optimization. The deploy model runs emulated:
lowered to standard integer operators, floats rounded to fp16. The two differ by design where the
file quantizes values that no INT8 layer reads, which Ascend computes in fp16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.export_record import BucketFiles
from quantflow.artifacts.from_qdq_record import OutputAgreement
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.record import Verdict
from quantflow.config import Config
from quantflow.errors import QuantflowError
from quantflow.evaluation.precisions import open_int8
from quantflow.evaluation.random_samples import random_samples
from quantflow.numerics.error_metrics import cosine
from quantflow.runtime.bucket_run import Outputs, fit_sample, run_samples
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.runner import Feeds

RANDOM_SAMPLES = 8
LEAST_COSINE = 0.99
"""Below it, deploy model and file differ by more than a few rounding steps."""

LARGEST_LOSS = 1e-3
"""How much further from the float model than the file the deploy model may be, in mean cosine."""


def agreement(
    config: Config,
    source: Path,
    model: ir.Model,
    record: ModelRecord,
    export_dir: Path,
    buckets: Sequence[BucketFiles],
    plan: PrecisionPlan,
    samples: Sequence[Feeds],
) -> tuple[list[OutputAgreement], list[str]]:
    """Compare every output, bucket by bucket.

    Args:
        config: target and runtime count.
        source: the quantized file.
        model, record: the canonical model made of it.
        export_dir, buckets: where the deploy models are.
        plan: gives the fp32 islands.
        samples: arrays without the batch axis; random ones are drawn where there are none.

    Returns:
        A row for every output of every bucket, and why there are none where that is so.
    """
    try:
        reference = OnnxRuntimeRunner(source, config.runtime, optimize=False)
    except QuantflowError as error:
        return [], [f"not compared with the file: {error.problems[0].what}"]
    rows, missed = list[OutputAgreement](), list[str]()
    for bucket in buckets:
        fitting = [x for x in samples if _fits(x, record, bucket.dims)]
        if not samples:
            fitting = random_samples(model, record, bucket.dims, RANDOM_SAMPLES)
        if not fitting:
            missed.append(f"{bucket.name} is not compared with the file: no sample fits it")
            continue
        deploy = open_int8(export_dir, bucket, plan, config.target, config.runtime)
        exact = OnnxRuntimeRunner(export_dir / bucket.float_twin, config.runtime)
        runners = [reference, deploy, exact]
        results = [x for _, x in run_samples(runners, fitting, record, bucket.dims)]
        rows += [_row(bucket.name, info.name, results) for info in record.outputs]
    return rows, missed


def judge(rows: Sequence[OutputAgreement], *, given: bool) -> tuple[Verdict, list[str]]:
    """Whether the deploy models are as good as the file.

    Rounding flips grow along a network, so that two that are equally good may differ. An output
    passes when it is close to the file's, or as close to the float model's as the file's is. Random
    inputs can only warn: they are not what the file was made for.

    Args:
        rows: what `agreement` found.
        given: whether the samples were given.
    """
    if not rows:
        return "warn", ["the deploy models were not compared with the file"]
    low = [row for row in rows if row.cosine_min < LEAST_COSINE and _lost(row) > LARGEST_LOSS]
    reasons = [
        f"{row.bucket}: output {row.output!r} has a least cosine of {row.cosine_min:.6f} to the "
        f"file's, emulated, and is further from the float model by {_lost(row):.6f}"
        + ("" if given else "; random inputs")
        for row in low
    ]
    return ("fail" if given else "warn") if low else "pass", reasons


def _fits(sample: Feeds, record: ModelRecord, dims: Mapping[str, int]) -> bool:
    try:
        fit_sample(sample, record, dims)
    except QuantflowError:
        return False
    return True


def _lost(row: OutputAgreement) -> float:
    return row.file_to_float - row.deploy_to_float


def _row(bucket: str, name: str, results: Sequence[Sequence[Outputs]]) -> OutputAgreement:
    """One output of the file, the deploy model and the float model on every sample."""
    file, deploy, exact = ([_vector(x[i][name]) for x in results] for i in range(3))
    pairs = zip(file, deploy, strict=True)
    errors = [np.abs(a.astype(np.float64) - b).max(initial=0) for a, b in pairs]
    cosines = _cosines(file, deploy)
    return OutputAgreement(
        bucket=bucket,
        output=name,
        samples=len(results),
        cosine_mean=float(np.mean(cosines)),
        cosine_min=min(cosines),
        max_abs_error=float(np.max(errors)),
        file_to_float=float(np.mean(_cosines(exact, file))),
        deploy_to_float=float(np.mean(_cosines(exact, deploy))),
    )


def _cosines(
    reference: Sequence[NDArray[np.float32]], other: Sequence[NDArray[np.float32]]
) -> list[float]:
    found = [float(cosine(a[None], b[None])[0]) for a, b in zip(reference, other, strict=True)]
    return [value if np.isfinite(value) else -1.0 for value in found]


def _vector(array: NDArray[np.generic]) -> NDArray[np.float32]:
    return array.ravel().astype(np.float32)
