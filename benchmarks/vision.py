"""Convolutional networks in INT8: EfficientNet-Lite0, and PP-OCR's recogniser and detector.

Each model goes through the stages as its calibration set says, by ranges alone, with the plan that
the search finds, and once more with everything INT8 and ranges from minimum to maximum, which is
what a plain quantizer does. Both are the deploy files themselves, lowered to integer operators,
against fp32 on the evaluation samples: 480 views of 105 pictures, 200 lines, 48 pages. Nothing is
timed. What the optimization recovers is in `accuracy.py`.

    make models data
    python benchmarks/vision.py [--json FILE] [--only efficientnet] [--directory runs]
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copytree
from typing import Literal

import numpy as np
from _harness import Figure, finish, parser
from numpy.typing import NDArray

from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.artifacts.sample_set import SampleSet
from quantflow.config import load_config
from quantflow.evaluation.comparison import compare_outputs
from quantflow.evaluation.precisions import open_precisions
from quantflow.progress import no_progress
from quantflow.runtime.bucket_run import as_vector
from quantflow.stages.pipeline import run_stage
from quantflow.stages.stage import Context
from quantflow.stages.stage_0_model import STAGE as MODEL
from quantflow.stages.stage_1_set import STAGE as SET
from quantflow.stages.stage_2_ranges import STAGE as RANGES
from quantflow.stages.stage_3_sweep import STAGE as SWEEP
from quantflow.stages.stage_4_onnx import STAGE as ONNX
from quantflow.tasks.agreement import classes_of
from quantflow.tasks.figures import Figures
from quantflow.tasks.metrics import METRICS, Judged

SETS = Path(__file__).parents[1] / "calibration_sets"
CONFIGS = {
    "efficientnet": SETS / "efficientnet_stamps" / "quantflow.toml",
    "recogniser": SETS / "ppocr" / "recogniser.toml",
    "detector": SETS / "ppocr" / "detector.toml",
}
NAIVE = ('quantization.estimator="minmax"', 'plan.policy="none"')
Way = Literal["plan", "naive"]


@dataclass
class Seen:
    """What the outputs of one precision add up to.

    Attributes:
        agreement: of its decisions with those of fp32, by sample.
        classes: its decisions.
        signal, noise: energy of all outputs of fp32, and of the difference to it.
    """

    agreement: Figures
    classes: dict[int, NDArray[np.int64]] = field(default_factory=dict[int, NDArray[np.int64]])
    signal: float = 0.0
    noise: float = 0.0

    @property
    def sqnr_db(self) -> float:
        """Signal to quantization noise ratio over all samples, in dB."""
        return 10 * float(np.log10(self.signal / self.noise))


def main() -> int:
    """Run the models and print the table."""
    options = parser(__doc__ or "")
    options.add_argument("--only", choices=CONFIGS, help="one model instead of all")
    options.add_argument("--directory", type=Path, metavar="DIR", help="keep the runs there")
    given = options.parse_args()
    figures = list[Figure]()
    with tempfile.TemporaryDirectory() as temporary:
        for name in [given.only] if given.only else CONFIGS:
            base = (given.directory or Path(temporary)) / f"vision_{name}"
            figures += measure(name, "plan", base)
            figures += measure(name, "naive", base)
    return finish("Convolutional networks, INT8 against fp32", figures, given.json)


def measure(name: str, way: Way, base: Path) -> list[Figure]:
    """The figures of a model.

    Args:
        name: of the model.
        way: as its configuration says, or naively.
        base: where the run of the plan lies; a naive run takes model and samples from there.
    """
    directory = base if way == "plan" else base.with_name(f"{base.name}_naive")
    if way == "naive":
        for folder in ("00_model", "10_set"):
            copytree(base / folder, directory / folder, dirs_exist_ok=True)
    overrides = (f'run.directory="{directory}"', *(NAIVE if way == "naive" else ()))
    loaded = load_config(CONFIGS[name], overrides)
    context = Context(loaded, RunDirectory(loaded.run_directory))
    stages = (MODEL, SET, RANGES, SWEEP, ONNX) if way == "plan" else (MODEL, SET, RANGES, ONNX)
    for stage in stages:
        run_stage(context, stage)
    export = ExportRecord.read(context.folder("40_onnx") / "export.json")
    label = f"{name}, {'plan' if way == 'plan' else 'all INT8 by min-max'}: "
    floats = sum(entry.precision != "int8" for entry in export.layers)
    figures = _fidelity_figures(name, way, label, context, export)
    return [
        *figures,
        Figure(f"{label}share of MACs in INT8, of 1", export.int8_mac_fraction),
        Figure(f"{label}layers that stay in float, of {len(export.layers)}", floats),
        Figure(f"{label}quantize and dequantize nodes", export.boundaries),
    ]


def _fidelity_figures(
    name: str, way: Way, label: str, context: Context, export: ExportRecord
) -> list[Figure]:
    seen, cosines = _outputs(context, export, decides=name != "detector")
    figures = [
        Figure(f"{label}cosine of int8 outputs, mean", float(cosines["int8"].mean())),
        Figure(f"{label}SQNR of int8 outputs, dB", seen["int8"].sqnr_db),
    ]
    if name == "detector":
        return figures
    exact, seed = seen["fp32"].classes, context.config.run.seed
    for precision in ("fp16", "int8") if way == "plan" else ("int8",):
        score = seen[precision].agreement.score(seed=seed)
        what = f"{label}{precision} top-1 agreement ({score.low:.3f} to {score.high:.3f})"
        wanted = name == "efficientnet" and way == "plan" and precision == "int8"
        figures.append(Figure(what, score.value, 0.98 if wanted else None))
    if name == "recogniser":
        same = [
            np.array_equal(_text(exact[index]), _text(other))
            for index, other in seen["int8"].classes.items()
        ]
        figures.append(Figure(f"{label}lines read as fp32 reads them, of 1", float(np.mean(same))))
    elif way == "plan":
        figures.append(Figure(f"{label}evaluation pictures", len(exact), 400))
    return figures


def _outputs(
    context: Context, export: ExportRecord, *, decides: bool
) -> tuple[dict[str, Seen], dict[str, NDArray[np.float64]]]:
    """What fp32, fp16 and int8 make of the evaluation samples, and the cosines to fp32."""
    config, folder = context.config, context.folder("40_onnx")
    record = ModelRecord.read(context.folder("00_model") / "model.json")
    plan = PrecisionPlan.read(folder / "plan.json")
    bucket = export.buckets[0]
    models = open_precisions(folder, bucket, plan, config.target, config.runtime)
    others = {name: models.others[name] for name in ("fp16", "int8")}
    samples = SampleSet(context.folder("10_set") / "evaluation")
    metric = METRICS["agreement"]
    seen = {name: Seen(Figures(metric, len(samples))) for name in ("fp32", *others)}

    def observe(name: str, index: int, judged: Judged) -> None:
        if decides:
            seen[name].agreement.add(index, judged)
            seen[name].classes[index] = classes_of(judged.outputs)
        reference, values = (as_vector(dict(x)) for x in (judged.reference, judged.outputs))
        seen[name].signal += float(np.square(reference, dtype=np.float64).sum())
        seen[name].noise += float(np.square(values - reference, dtype=np.float64).sum())

    found = compare_outputs(
        models.fp32, others, samples, samples.ids, record, bucket.dims, no_progress, observe
    )
    return seen, {name: close.cosine for name, close in found.items()}


def _text(classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """What a line says: repeats drawn together, blanks (class 0) left out (Graves et al. 2006)."""
    starts = np.append(True, classes[1:] != classes[:-1])
    return classes[starts & (classes != 0)]


if __name__ == "__main__":
    sys.exit(main())
