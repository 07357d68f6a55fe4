"""Between stages 2 and 3: what brings the INT8 model nearer to the float one than ranges alone."""

from __future__ import annotations

from pathlib import Path

from quantflow.runtime.onnxruntime_build import build_identity
from quantflow.stages.stage import Context, Stage, section_digest


def inputs(context: Context) -> dict[str, str]:
    """Optimize, quantization, target and runtime sections, the metric, model, set and ranges."""
    config = context.config
    return {
        "optimize": section_digest(config.optimize),
        "quantization": section_digest(config.quantization),
        "target": section_digest(config.target),
        "runtime": section_digest(config.runtime),
        "plan.metric": config.plan.metric,
        "plan.samples": str(config.plan.samples),
        "onnxruntime": build_identity(),
        "00_model": context.digest_of("00_model"),
        "10_set": context.digest_of("10_set"),
        "20_ranges": context.digest_of("20_ranges"),
    }


def work(context: Context, folder: Path) -> None:
    """Write `optimize.json` and, where a pass is kept, model, ranges and weights."""
    from quantflow.stages import work_25_optimize

    work_25_optimize.work(context, folder)


STAGE = Stage(
    folder="25_optimize",
    title="optimization",
    command="quantflow optimize",
    reads=("00_model", "10_set", "20_ranges"),
    inputs=inputs,
    work=work,
)
