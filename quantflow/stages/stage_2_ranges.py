"""Stage 2: histograms, ranges, coverage, stability, the clipping report and fp16 safety."""

from __future__ import annotations

from pathlib import Path

from quantflow.runtime.onnxruntime_build import build_identity
from quantflow.stages.stage import Context, Stage, section_digest


def inputs(context: Context) -> dict[str, str]:
    """The quantization and runtime sections, onnxruntime's build, the model and the sets."""
    digests = {
        "quantization": section_digest(context.config.quantization),
        "runtime": section_digest(context.config.runtime),
        "onnxruntime": build_identity(),
        "00_model": context.digest_of("00_model"),
        "10_set": context.digest_of("10_set"),
    }
    if context.config.set.profile is not None:  # which then stands in for the held-out samples
        digests["set.profile"] = "given"
    return digests


def work(context: Context, folder: Path) -> None:
    """Write histograms, ranges, coverage, stability, the clipping report and the fp16 report."""
    from quantflow.stages import work_2_ranges

    work_2_ranges.work(context, folder)


def assist(context: Context) -> None:
    """Measure this worker's share of the samples."""
    from quantflow.stages import work_2_ranges

    work_2_ranges.measure(context)


STAGE = Stage(
    folder="20_ranges",
    title="ranges",
    command="quantflow calibrate",
    reads=("00_model", "10_set"),
    inputs=inputs,
    work=work,
    assist=assist,
)
