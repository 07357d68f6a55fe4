"""A model calibrated on one kind of text and run on another, before and after re-selection."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from typing import Any, Literal

from _harness import Figure

from quantflow.artifacts.comparison import Comparison
from quantflow.artifacts.coverage_record import CoverageReport
from quantflow.artifacts.drift_record import DriftReport
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.config import load_config
from quantflow.stages.comparison import STAGE as COMPARE
from quantflow.stages.pipeline import run_stage
from quantflow.stages.stage import Context
from quantflow.stages.stage_0_model import STAGE as MODEL
from quantflow.stages.stage_1_set import STAGE as SET
from quantflow.stages.stage_2_ranges import STAGE as RANGES
from quantflow.stages.stage_4_onnx import STAGE as ONNX
from quantflow.user_code import load_function

SETS = Path(__file__).parents[1] / "calibration_sets"

Records = Sequence[dict[str, Any]]
Source = Callable[[], Records]


def _function(folder: str, name: str) -> Source:
    return lambda: load_function(name, SETS / folder)()


def _rows(source: Source) -> Source:
    """Rows of 512 tokens for SmolLM2, of records' texts one after the other."""

    def made() -> Records:
        encode = load_function("model:tokenizer", SETS / "smollm2_wikipedia")().encode
        ids = encode("\n\n".join(record["text"] for record in source()[:1200])).ids
        return [{"input_ids": ids[i : i + 512]} for i in range(0, len(ids) - 511, 512)]

    return made


@dataclass(frozen=True, slots=True)
class Case:
    """What a model is calibrated on, and what it is sent.

    Attributes:
        part: of the benchmark.
        name: for the table.
        config: of the model.
        calibration: what it is calibrated on.
        more: what is further at hand when the set is re-selected.
        deployment, evaluation: what it is sent.
        sizes: overrides of the configuration.
    """

    part: Literal["repair", "smollm2"]
    name: str
    config: str
    calibration: Source
    more: Source
    deployment: Source
    evaluation: Source
    sizes: tuple[str, ...] = ()


_PROSE, _CODE, _CHINESE = "english_prose", "python_code", "chinese_text"
_CANDIDATES = {
    _PROSE: _function(_PROSE, "data:candidate_paragraphs"),
    _CODE: _function(_CODE, "data:candidate_functions"),
    _CHINESE: _function(_CHINESE, "data:candidate_paragraphs"),
}
_SENT = {
    _PROSE: "paragraphs",
    _CODE: "functions",
    _CHINESE: "paragraphs",
}
_WORDS = {_PROSE: "prose", _CODE: "code", _CHINESE: "Chinese"}


def _minilm(calibrated: str, sent: str) -> Case:
    return Case(
        part="repair",
        name=f"MiniLM, {_WORDS[calibrated]} for {_WORDS[sent]}",
        config=_PROSE,
        calibration=_CANDIDATES[calibrated],
        more=_CANDIDATES[sent],
        deployment=_function(sent, f"data:deployment_{_SENT[sent]}"),
        evaluation=_function(sent, f"data:evaluation_{_SENT[sent]}"),
        sizes=("set.pool_samples=800",),
    )


def _smollm2(calibrated: str, sent: str) -> Case:
    deployment = _function(sent, f"data:deployment_{_SENT[sent]}")
    evaluation = _function(sent, f"data:evaluation_{_SENT[sent]}")
    return Case(
        part="smollm2",
        name=f"SmolLM2, {_WORDS[calibrated]} for {_WORDS[sent]}",
        config="smollm2_wikipedia",
        calibration=_rows(_CANDIDATES[calibrated]),
        more=_rows(_CANDIDATES[sent]),
        deployment=_rows(deployment),
        evaluation=_rows(evaluation),
        sizes=("set.pool_samples=64",),
    )


CASES = (
    _minilm(_PROSE, _CODE),
    _minilm(_CODE, _PROSE),
    _minilm(_PROSE, _CHINESE),
    _minilm(_CHINESE, _PROSE),
    _smollm2(_PROSE, _CODE),
)


def repair_figures(case: Case, directory: Path) -> list[Figure]:
    """Everything INT8 on what the model is sent, with the set as it was and re-selected.

    Args:
        case: what is calibrated on, and what is sent.
        directory: of the runs; stage 0 of a model is made once.
    """
    calibration, more = case.calibration(), case.more()
    # As a pool scraped together may be: as much of the one as of the other.
    count = min(len(calibration), len(more))
    pools = {"before": calibration, "after": [*calibration[:count], *more[:count]]}
    production = {
        "deployment": _write(directory, "deployment", case.deployment()),
        "evaluation": _write(directory, "evaluation", case.evaluation()),
    }
    figures = list[Figure]()
    for when, pool in pools.items():
        sources = {"candidates": _write(directory, "candidates", pool), **production}
        figures += _run(case, when, sources, directory)
    return figures


def _run(case: Case, when: str, sources: dict[str, str], directory: Path) -> list[Figure]:
    root = directory / f"{case.config}_{when}"
    model = directory / case.config / MODEL.folder
    if model.exists():
        copytree(model, root / MODEL.folder, dirs_exist_ok=True)
    selection = "random" if when == "before" else "match"
    overrides = [
        f'run.directory="{root}"',
        f'set.selection="{selection}"',
        'plan.policy="none"',
        *(f'set.{name}={{kind="jsonl", path="{path}"}}' for name, path in sources.items()),
        *case.sizes,
    ]
    loaded = load_config(SETS / case.config / "quantflow.toml", overrides)
    context = Context(loaded, RunDirectory(loaded.run_directory))
    for stage in (MODEL, SET, RANGES, ONNX, COMPARE):
        run_stage(context, stage)
    if not model.exists():
        copytree(root / MODEL.folder, model)
    drift = DriftReport.read(context.folder("10_set") / "drift.json")
    coverage = CoverageReport.read(context.folder("20_ranges") / "coverage.json")
    found = Comparison.read(context.folder("45_compare") / "comparison.json")
    worst = max(coverage.rows, key=lambda row: row.outside_fraction)
    leaving = sum(row.verdict != "pass" for row in coverage.rows)
    label = f"{case.name}, {when}: "
    verdicts = f"gate says {drift.verdict}, coverage {coverage.verdict}"
    figures = [
        Figure(
            f"{label}layers that deployment leaves the range of, of {len(coverage.rows)} "
            f"({verdicts})",
            leaving,
        ),
        Figure(
            f"{label}share of values beyond calibration's extremes in {worst.group}",
            worst.outside_fraction,
        ),
        Figure(f"{label}cosine of int8 outputs, mean", found.fidelity["int8"].cosine_mean),
    ]
    if "int8" in found.task:
        rise = found.task["int8"].value / found.task["fp32"].value - 1
        figures.append(Figure(f"{label}perplexity over that of fp32, less 1", rise))
    return figures


def _write(directory: Path, name: str, records: Records) -> str:
    """The records as JSON lines; returns the file's path."""
    path = directory / f"{name}.jsonl"
    directory.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)
