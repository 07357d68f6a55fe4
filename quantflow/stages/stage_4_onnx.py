"""Stage 4: the deploy model for atc, its twins, and the proof that it computes what it should."""

from __future__ import annotations

from pathlib import Path

from quantflow.artifacts.digest import file_digest
from quantflow.runtime.onnxruntime_build import build_identity
from quantflow.stages.stage import Context, Stage, section_digest


def inputs(context: Context) -> dict[str, str]:
    """Target, weight granularity, plan settings, the model, the ranges and the set."""
    plan = context.folder("30_sweep") / "plan.json"
    planned = file_digest(plan) if plan.exists() else ""
    settings = {} if planned else {"plan": section_digest(context.config.plan)}
    return {
        "target": section_digest(context.config.target),
        "quantization": section_digest(context.config.quantization),
        "onnxruntime": build_identity(),
        "00_model": context.digest_of("00_model"),
        "10_set": context.digest_of("10_set"),
        "20_ranges": context.digest_of("20_ranges"),
        "25_optimize": context.digest_of("25_optimize"),
        "30_sweep/plan.json": planned,
        **settings,
    }


def work(context: Context, folder: Path) -> None:
    """Write the files of every bucket, `plan.json`, `export.json` and `parity.json`."""
    from quantflow.stages import work_4_onnx

    work_4_onnx.work(context, folder)


STAGE = Stage(
    folder="40_onnx",
    title="ONNX export",
    command="quantflow export-onnx",
    reads=("00_model", "10_set", "20_ranges"),
    inputs=inputs,
    work=work,
    reads_if_there=("25_optimize", "30_sweep"),
)
