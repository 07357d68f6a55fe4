"""Stage 3: what the scores of all groups cost, whether they are right, and what plans come to.

MiniLM: every group alone in INT8 and everything but it, by cosine, on 128 calibration paragraphs of
128 tokens without halving, against plain inference of the same samples, right before and after; and
against a fresh static graph of every group on the first 8 of them.

SmolLM2-135M: groups by perplexity on 4 rows of 512 tokens, then a plan whose perplexity may rise by
6% with 75% of MACs in INT8 or more, verified on 16 held-out rows; the rise is then measured on 16
evaluation rows of other articles. Ranges by `auto` and no other recovery. Timed is stage 3 alone.

EfficientNet-Lite0: the plan of calibration_sets/efficientnet_stamps, searched on 48 pictures and
verified on 200; agreement with fp32 on 480 evaluation views.

All draws and bootstraps have seed 0. fp16 is emulated, INT8 is the deploy model lowered to integer
operators.

    make models data
    python benchmarks/sensitivity.py [--json FILE] [--only minilm] [--directory DIR]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from _harness import Figure, finish, parser
from vision import measure as measure_vision

from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.artifacts.sample_set import SampleSet
from quantflow.artifacts.sweep_record import SweepRecord
from quantflow.config import load_config
from quantflow.evaluation.precisions import open_precisions
from quantflow.export.deploy import deploy_model
from quantflow.export.lowering import lower
from quantflow.runtime.bucket_run import run_samples
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.sensitivity.assess import Assessed
from quantflow.sensitivity.ledger import Ledger
from quantflow.sensitivity.probe import Probe
from quantflow.stages.pipeline import run_stage
from quantflow.stages.stage import Context
from quantflow.stages.stage_0_model import STAGE as MODEL
from quantflow.stages.stage_1_set import STAGE as SET
from quantflow.stages.stage_2_ranges import STAGE as RANGES
from quantflow.stages.stage_3_sweep import STAGE as SWEEP
from quantflow.stages.stage_4_onnx import STAGE as ONNX
from quantflow.stages.work_3_sweep import Parts
from quantflow.tasks.figures import Figures
from quantflow.tasks.metrics import Judged, perplexity_metric

SETS = Path(__file__).parents[1] / "calibration_sets"
MINILM_SAMPLES = 128
CHECKED_SAMPLES = 8
RISE, SHARE, MINUTES = 0.06, 0.75, 20


def main() -> int:
    """Run the models and print the table."""
    models: dict[str, Callable[[Path], list[Figure]]] = {
        "minilm": minilm,
        "smollm2": smollm2,
        "efficientnet": lambda directory: measure_vision("efficientnet", "plan", directory),
    }
    options = parser(__doc__ or "")
    options.add_argument("--only", choices=models, help="one model instead of all")
    options.add_argument("--directory", type=Path, metavar="DIR", help="keep the runs there")
    given = options.parse_args()
    figures = list[Figure]()
    with tempfile.TemporaryDirectory() as temporary:
        base = given.directory or Path(temporary)
        for name in [given.only] if given.only else models:
            figures += models[name](base / f"sensitivity_{name}")
    return finish("Sensitivity and the precision plan", figures, given.json)


def opened(name: str, directory: Path, *overrides: str) -> Context:
    """A model's configuration, with the stages before stage 3 run."""
    config = SETS / name / "quantflow.toml"
    loaded = load_config(config, [f'run.directory="{directory}"', *overrides])
    context = Context(loaded, RunDirectory(loaded.run_directory))
    for stage in (MODEL, SET, RANGES):
        run_stage(context, stage)
    return context


def minilm(directory: Path) -> list[Figure]:
    """What scores cost, and how far they are from those of fresh graphs."""
    count = MINILM_SAMPLES
    context = opened("minilm_wikipedia", directory, f"set.samples={count}", f"plan.samples={count}")
    parts = Parts(context, Ledger(None, context.workers))
    plain = OnnxRuntimeRunner(parts.verifier.model, parts.runtime)
    before = _inference_seconds(plain, parts.probe)
    start = time.perf_counter()
    assessed = replace(parts.assessment(), halving=False).run()
    seconds = time.perf_counter() - start
    inference = (before + _inference_seconds(plain, parts.probe)) / 2
    groups = len(parts.record.groups)
    halved_start = time.perf_counter()
    replace(parts.assessment(), halving=True, ledger=Ledger(None, context.workers)).run()
    halved = time.perf_counter() - halved_start
    ratio = f"minilm: scores / ({groups} x inference)"
    return [
        Figure(f"minilm: plain inference of {count} texts, s", inference),
        Figure(f"minilm: one-in and one-out of {groups} groups, s", seconds),
        Figure(ratio, seconds / (groups * inference), 1.5, "at most"),
        Figure("minilm: the same with halving", halved / (groups * inference)),
        *_stability(assessed),
        *_against_fresh_graphs(parts),
    ]


def _inference_seconds(runner: OnnxRuntimeRunner, probe: Probe) -> float:
    """Wall-clock seconds of all samples, after a batch that is not counted."""
    runner.run(probe.feeds(0))
    start = time.perf_counter()
    for number in probe.batches:
        runner.run(probe.feeds(number))
    return time.perf_counter() - start


def _stability(assessed: Assessed) -> list[Figure]:
    return [
        Figure("minilm: rank stability, 1 is sure", assessed.stability or np.nan),
        Figure(
            "minilm: rank correlation, one-in and one-out", assessed.in_out_correlation or np.nan
        ),
    ]


def _against_fresh_graphs(parts: Parts) -> list[Figure]:
    """The largest difference of a score to that of a static graph made for it alone."""
    probe = parts.probe
    part = range(-(-CHECKED_SAMPLES // len(probe.samples_in(range(1)))))
    assessment = replace(parts.assessment(), ledger=Ledger(None, parts.context.workers))
    names = [group.name for group in parts.record.groups]
    alone = dict(zip(names, assessment.values("in", names, part, ""), strict=True))
    others = dict(zip(names, assessment.values("out", names, part, ""), strict=True))
    everything = frozenset(names)
    of_in, of_out = list[float](), list[float]()
    for name in names:
        fresh = _fresh(parts, frozenset({name}), part)
        of_in.append(float(np.abs(alone[name] - fresh).max()))
        fresh = _fresh(parts, everything - {name}, part)
        error = float(fresh.std(ddof=1) / np.sqrt(len(fresh)))
        of_out.append(abs(float((others[name] - fresh).mean())) / error)
    return [
        Figure("minilm: one-in, largest difference to a fresh graph", max(of_in), 1e-6, "at most"),
        Figure("minilm: one-out, the same in standard errors", max(of_out), 1, "at most"),
    ]


def _fresh(parts: Parts, int8: frozenset[str], part: range) -> np.ndarray:
    """``(S',)`` cosines of a static graph with these groups in INT8."""
    layers = tuple(x for x in parts.record.layers if x.group in int8)
    record = parts.record.model_copy(update={"layers": layers})
    names = {layer.name for layer in layers}
    factors = [x for x in parts.factors if x.layer in names]
    deploy = deploy_model(parts.verifier.model, record, factors)
    fp19 = parts.context.config.target.fp19_dequant
    lowered = lower(deploy, fp19=fp19, emulate_fp16=False, islands=frozenset())
    runner = OnnxRuntimeRunner(lowered, parts.runtime)
    probe = parts.probe
    return probe.measure(lambda number: runner.run(probe.feeds(number)), ["cosine"], part)["cosine"]


def smollm2(directory: Path) -> list[Figure]:
    """The order of the groups, and the plan's perplexity."""
    context = opened(
        "smollm2_wikipedia",
        directory,
        'plan.policy="auto"',
        "plan.samples=4",
        f"budget.perplexity_rise_fraction={RISE}",
        f"budget.int8_mac_fraction={SHARE}",
    )
    start = time.perf_counter()
    run_stage(context, SWEEP)
    minutes = (time.perf_counter() - start) / 60
    run_stage(context, ONNX)
    sweep = SweepRecord.read(context.folder("30_sweep") / "sweep.json")
    places = {score.group: place for place, score in enumerate(sweep.scores, 1)}
    down = {k: places[f"model.layers.{k}.mlp.down_proj"] for k in (28, 11, 2, 29)}
    export = ExportRecord.read(context.folder("40_onnx") / "export.json")
    found = _perplexities(context, export)
    rise = 100 * (found["int8"] / found["fp32"] - 1)
    return [
        *(
            Figure(f"smollm2: rank of down_proj {k}", place, 2 if k in (28, 11) else 5, "at most")
            for k, place in down.items()
        ),
        Figure("smollm2: perplexity, fp32", found["fp32"]),
        Figure("smollm2: perplexity, the plan", found["int8"]),
        Figure("smollm2: rise, %", rise, 100 * RISE, "at most"),
        Figure("smollm2: share of MACs in INT8, of 1", export.int8_mac_fraction, SHARE),
        Figure("smollm2: groups in fp16", sweep.policies[-1].fp16_groups),
        Figure("smollm2: stage 3, minutes", minutes, MINUTES, "at most"),
    ]


def _perplexities(context: Context, export: ExportRecord) -> Mapping[str, float]:
    """Of fp32 and the deploy file, on the evaluation rows."""
    record = ModelRecord.read(context.folder("00_model") / "model.json")
    folder, bucket = context.folder("40_onnx"), export.buckets[0]
    plan = PrecisionPlan.read(folder / "plan.json")
    models = open_precisions(folder, bucket, plan, context.config.target, context.config.runtime)
    samples = SampleSet(context.folder("10_set") / "evaluation")
    metric = perplexity_metric("input_ids")
    seen = {name: Figures(metric, len(samples)) for name in ("fp32", "int8")}
    inputs = list(samples)
    runners = [models.fp32, models.others["int8"]]
    for index, outputs in run_samples(runners, inputs, record, bucket.dims):
        for figures, output in zip(seen.values(), outputs, strict=True):
            figures.add(index, Judged(samples.ids[index], inputs[index], {}, output))
    seed = context.config.run.seed
    return {name: figures.score(seed=seed).value for name, figures in seen.items()}


if __name__ == "__main__":
    sys.exit(main())
