"""fp32, fp16 and int8 of the demo's model, all INT8, weights per channel and per tensor.

int8 is the deploy file that is written for atc, lowered to integer operators and run on this CPU;
fp16 is emulated. 64 calibration texts and 64 other texts of Wikipedia, 128 tokens; the task is
Spearman's correlation with human similarity scores on the Lee documents. Nothing is timed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from _harness import Figure, arguments, finish

from quantflow.artifacts.comparison import Comparison
from quantflow.artifacts.export_record import ParityReport
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.config import load_config
from quantflow.stages.pipeline import STAGES, run_stage
from quantflow.stages.stage import Context

CONFIG = Path(__file__).parents[1] / "calibration_sets/minilm_wikipedia/quantflow.toml"
COSINE = {"per-channel": 0.992, "per-tensor": None}


def main() -> int:
    """Run both and print the table."""
    options = arguments(__doc__ or "")
    figures = list[Figure]()
    with tempfile.TemporaryDirectory() as directory:
        for granularity, target in COSINE.items():
            figures += measure(granularity, target, Path(directory) / granularity)
    return finish("MiniLM, everything INT8, against fp32", figures, options.json)


def measure(granularity: str, target: float | None, directory: Path) -> list[Figure]:
    """The figures of one way to scale weights."""
    overrides = (
        f'run.directory="{directory}"',
        f'quantization.weight_granularity="{granularity}"',
        'plan.policy="none"',
        "budget.cosine_mean=0.9",
    )
    loaded = load_config(CONFIG, overrides)
    context = Context(loaded, RunDirectory(loaded.run_directory))
    for stage in STAGES:
        run_stage(context, stage)
    found = Comparison.read(context.folder("45_compare") / "comparison.json")
    parity = ParityReport.read(context.folder("40_onnx") / "parity.json")
    name = f"{granularity}: "
    figures = [
        Figure(name + "fp16 cosine, mean", found.fidelity["fp16"].cosine_mean, 0.9999),
        Figure(name + "fp16 cosine, min", found.fidelity["fp16"].cosine_min),
        Figure(name + "int8 cosine, mean", found.fidelity["int8"].cosine_mean, target),
        Figure(name + "int8 cosine, min", found.fidelity["int8"].cosine_min),
        Figure(name + "int8 max absolute error", found.fidelity["int8"].max_abs_error),
        Figure(name + "parity cosine, least layer", parity.cosine_min, 0.99999),
        Figure(name + "fidelity gap to the QDQ twin", found.fidelity_gap, 0.001, "at most"),
    ]
    for precision in ("fp32", "fp16", "int8"):
        score = found.task[precision]
        label = f"{name}{precision} Spearman ({score.low:.3f} to {score.high:.3f})"
        figures.append(Figure(label, score.value))
    return figures


if __name__ == "__main__":
    sys.exit(main())
