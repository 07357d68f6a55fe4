"""What recovers accuracy beyond ranges: every technique alone and together, and plans.

Techniques are shown with everything INT8. A plan is what `quantflow sweep` finds for the budget
named, or makes of the layers named (SmolLM2). Time is told in passes as well: plain onnxruntime
inference of the calibration samples, in this run.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from _harness import Figure, seconds

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.optimize_record import OptimizeRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.artifacts.sample_set import SampleSet
from quantflow.artifacts.sweep_record import PolicyResult, SweepRecord
from quantflow.config import load_config
from quantflow.export.qdq import Side
from quantflow.graph.bucket import bucket_model
from quantflow.graph.model_io import load_model
from quantflow.runtime.bucket_run import run_samples
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.workers import ALONE
from quantflow.sensitivity.ledger import Ledger
from quantflow.sensitivity.policy import plan_of, policy_none
from quantflow.sensitivity.verification import Verifier
from quantflow.stages.pipeline import run_stage
from quantflow.stages.stage import Context
from quantflow.stages.stage_3_sweep import STAGE as SWEEP
from quantflow.stages.stage_25_optimize import STAGE as OPTIMIZE
from quantflow.stages.work_3_sweep import Parts

SETS = Path(__file__).parents[1] / "calibration_sets"

PASSES = ("shift", "smoothing", "multiply", "rounding", "bias_correction")
ALL = "all"
ABLATION: dict[str, frozenset[str]] = {
    "ranges alone": frozenset(),
    "shift": frozenset({"shift"}),
    "smoothing, folded": frozenset({"smoothing"}),
    "smoothing with Mul": frozenset({"smoothing", "multiply"}),
    "rounding": frozenset({"rounding"}),
    "bias correction": frozenset({"bias_correction"}),
    "transforms and bias correction": frozenset(
        {"shift", "smoothing", "multiply", "bias_correction"}
    ),
    ALL: frozenset(PASSES),
}
"""Which passes are on."""

SIDES: tuple[Side, ...] = ("weights", "activations")

MOST_PASSES = {"transforms and bias correction": 20.0}
"""What an ablation may cost, in plain passes over the calibration samples."""

MOST_SECONDS = {"minilm, rounding": 180.0}
"""The same in seconds."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure of a plan should reach."""

    name: str
    value: float
    better: Literal["at least", "at most"] = "at least"


@dataclass(frozen=True, slots=True)
class Plan:
    """A search, or the fp16 layers that a person names: the budget, and what should come out."""

    name: str
    overrides: tuple[str, ...]
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """A model, how it is quantized, and the plans to look for.

    Attributes:
        folder: of its calibration set.
        overrides: of the configuration there.
        plans: of the recovery.
        file: the configuration.
        tasks: further configurations of the same model, for their tasks.
        search: what policy `auto` gets beside the configuration.
    """

    folder: str
    overrides: tuple[str, ...]
    plans: tuple[Plan, ...]
    file: str = "quantflow.toml"
    tasks: tuple[str, ...] = ()
    search: tuple[str, ...] = ()


ALL_DOWN = '{pattern="*.down_proj"}'
INT8_DOWN = ", ".join(
    f'{{pattern="*.layers.{layers}.mlp.down_proj", precision="int8"}}'
    for layers in ("[034]", "1[24678]")
)
"""Layers of SmolLM2 whose FFN output stays INT8 where 85% of MACs have to."""

LAST_OUTPUTS = '{pattern="*.layers.[12][0-9].self_attn.o_proj"}'
"""The output projections of layers 10 to 29."""

FFN_OUTPUTS = (
    Plan(
        "22 of 30 FFN outputs in fp16",
        (
            f"plan.pins=[{ALL_DOWN}, {INT8_DOWN}]",
            'plan.policy="none"',
            "budget.perplexity_rise_fraction=0.03",
            "budget.int8_mac_fraction=0.85",
        ),
        (Target("perplexity rise", 0.03, "at most"), Target("INT8 share of MACs", 0.85)),
    ),
    Plan(
        "all FFN outputs and 20 output projections in fp16",
        (
            f"plan.pins=[{ALL_DOWN}, {LAST_OUTPUTS}]",
            'plan.policy="none"',
            "budget.perplexity_rise_fraction=0.01",
            "budget.int8_mac_fraction=0.75",
        ),
        (Target("perplexity rise", 0.01, "at most"), Target("INT8 share of MACs", 0.75)),
    ),
)
"""Plans of SmolLM2: the layers that its ranking puts first."""

WITHIN_3 = ("budget.perplexity_rise_fraction=0.03",)
"""What a search for SmolLM2 has to reach."""

JOBS = {
    "minilm": Job(
        "minilm_wikipedia",
        (),
        (
            Plan(
                "94% INT8",
                ("budget.cosine_mean=0.999", "budget.int8_mac_fraction=0.94"),
                (
                    Target("cosine", 0.999),
                    Target("least cosine", 0.995),
                    Target("INT8 share of MACs", 0.94),
                ),
            ),
        ),
        tasks=("retrieval.toml",),
    ),
    "minilm-classes": Job("minilm_wikipedia", (), (), file="classification.toml"),
    "minilm-per-tensor": Job(
        "minilm_wikipedia",
        ('quantization.weight_granularity="per-tensor"',),
        (
            Plan(
                "80% INT8",
                ("budget.cosine_mean=0.985", "budget.int8_mac_fraction=0.8"),
                (Target("cosine", 0.985), Target("INT8 share of MACs", 0.8)),
            ),
        ),
    ),
    "smollm2": Job("smollm2_wikipedia", (), FFN_OUTPUTS, search=WITHIN_3),
    "smollm2-code": Job("smollm2_wikipedia", (), FFN_OUTPUTS, file="code.toml", search=WITHIN_3),
    "efficientnet": Job(
        "efficientnet_stamps",
        ("set.heldout_samples=400",),
        (
            Plan(
                "two layers in fp16",
                ("budget.agreement_fraction=0.99", "budget.fp16_groups=2"),
                (Target("agreement", 0.99), Target("fp16 groups", 2, "at most")),
            ),
        ),
    ),
}


def recovery_figures(name: str, job: Job, directory: Path) -> list[Figure]:
    """The ablation and the plans of a model whose ranges are there.

    Args:
        name: of the model.
        job: how it is quantized.
        directory: of the runs.
    """
    figures = list[Figure]()
    plain = plain_pass(context_of(job, directory))
    figures.append(Figure(f"{name}: plain pass over the calibration samples, s", plain))
    for label, on in ABLATION.items():
        passes = [f"optimize.{x}={str(x in on).lower()}" for x in PASSES]
        context = context_of(job, directory, passes)
        took = seconds(partial(run_stage, context, OPTIMIZE))
        of, (verifier, plan) = f"{name}, {label}", everything_int8(context)
        figures += _of(of, verifier.run(plan), ())
        figures.append(Figure(f"{of}: seconds", took, MOST_SECONDS.get(of), "at most"))
        figures.append(Figure(f"{of}: passes", took / plain, MOST_PASSES.get(label), "at most"))
        for side in SIDES if label == ALL else ():
            measures = verifier.one_side(plan, side)
            figures += [Figure(f"{of}, {side} alone: {x.metric}", x.value) for x in measures]
        _say(name, label, context)
    for plan in job.plans:
        context = context_of(job, directory, overrides_of(plan.overrides))
        run_stage(context, OPTIMIZE)
        run_stage(context, SWEEP)
        sweep = SweepRecord.read(context.folder("30_sweep") / "sweep.json")
        (result,) = (x for x in sweep.policies if x.policy == context.config.plan.policy)
        figures += _of(f"{name}, plan of {plan.name}", result, plan.targets)
    return figures


def overrides_of(found: Sequence[str]) -> list[str]:
    """Of a search, which is policy `auto`'s unless they name another."""
    return ['plan.policy="auto"', *found]


def context_of(job: Job, directory: Path, overrides: Sequence[str] = ()) -> Context:
    """The configuration of a job, in a run directory of its own."""
    place = "-".join([job.folder, Path(job.file).stem, *("other" for _ in job.overrides)])
    every = [f'run.directory="{directory / place}"', *job.overrides, *overrides]
    loaded = load_config(SETS / job.folder / job.file, every)
    return Context(loaded, RunDirectory(loaded.run_directory))


def plain_pass(context: Context) -> float:
    """Seconds of plain inference of the calibration samples, the better of two."""
    record = ModelRecord.read(context.folder("00_model") / "model.json")
    dims = context.config.target.buckets[0]
    model = bucket_model(load_model(context.folder("00_model") / "model.onnx"), dims)
    runner = OnnxRuntimeRunner(model, context.config.runtime)
    samples = SampleSet(context.folder("10_set") / "calibration")

    def infer() -> None:
        for _ in run_samples([runner], samples, record, dims):
            pass

    least = min(seconds(infer), seconds(infer))
    runner.close()
    return least


def everything_int8(context: Context) -> tuple[Verifier, PrecisionPlan]:
    """Policy none, and what runs it on the held-out samples."""
    parts = Parts(context, Ledger(None, ALONE))
    return parts.verifier, plan_of("none", policy_none(parts.record, {}), parts.islands)


def _of(label: str, result: PolicyResult, targets: Sequence[Target]) -> list[Figure]:
    found = {"least cosine": result.cosine_min, "INT8 share of MACs": result.int8_mac_fraction}
    found["fp16 groups"] = result.fp16_groups
    for measure in result.measures:
        found[measure.metric] = measure.value
        if measure.metric == "perplexity":  # the damage is the logarithm of the ratio to fp32's
            found["perplexity rise"] = math.expm1(measure.damage)
    print(
        label, {key: round(value, 6) for key, value in found.items()}, file=sys.stderr, flush=True
    )
    by_name = {target.name: target for target in targets}
    figures = list[Figure]()
    for key, value in found.items():
        target = by_name.get(key)
        figures.append(
            Figure(f"{label}: {key}", value, target.value, target.better)
            if target
            else Figure(f"{label}: {key}", value)
        )
    return figures


def _say(name: str, label: str, context: Context) -> None:
    """What became of every pass, on stderr: the table comes at the end."""
    record = OptimizeRecord.read(context.folder("25_optimize") / "optimize.json")
    for x in record.passes:
        kept = "kept" if x.kept else "dropped"
        line = f"{name}, {label}: {x.name} {kept}, {x.error_before:.4g} -> {x.error_after:.4g}"
        print(line, file=sys.stderr, flush=True)
