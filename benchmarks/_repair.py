"""A model calibrated on one kind of text and run on another, before and after re-selection."""

from __future__ import annotations

import json
import math
from pathlib import Path
from shutil import copytree

from _harness import Figure
from _recovery import everything_int8
from _repair_cases import SETS, Case, Records

from quantflow.artifacts.coverage_record import CoverageReport
from quantflow.artifacts.drift_record import DriftReport
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.config import load_config
from quantflow.stages.pipeline import run_stage
from quantflow.stages.stage import Context
from quantflow.stages.stage_0_model import STAGE as MODEL
from quantflow.stages.stage_1_set import STAGE as SET
from quantflow.stages.stage_2_ranges import STAGE as RANGES

WORST = 3
"""Layers whose clipped share is printed, before and after: those with the largest before."""


def repair_figures(case: Case, directory: Path) -> list[Figure]:
    """Everything INT8 on what the model is sent, with the set as it was and re-selected.

    The samples it is judged by are held out of deployment: no set is matched to them.

    Args:
        case: what is calibrated on, and what is sent.
        directory: of the runs; stage 0 of a model is made once.
    """
    calibration, more = case.calibration(), case.more()
    # As a pool scraped together may be: as much of the one as of the other.
    count = min(len(calibration), len(more))
    pools = {"before": calibration, "after": [*calibration[:count], *more[:count]]}
    production = {"deployment": _write(directory, "deployment", case.deployment())}
    figures, coverage = list[Figure](), dict[str, CoverageReport]()
    for when, pool in pools.items():
        sources = {"candidates": _write(directory, "candidates", pool), **production}
        found, coverage[when] = _run(case, when, sources, directory)
        figures += found
    return [*figures, *_clipped(case, coverage["before"], coverage["after"])]


def _clipped(case: Case, before: CoverageReport, after: CoverageReport) -> list[Figure]:
    """Clipped share of the layers with the largest before, before and after."""
    rows = sorted(before.rows, key=lambda row: -row.clipped_fraction)[:WORST]
    later = {row.tensor: row for row in after.rows}
    return [
        Figure(f"{case.name}, {when}: share of values clipped in {row.group}", row.clipped_fraction)
        for worst in rows
        for when, row in (("before", worst), ("after", later[worst.tensor]))
    ]


def _run(
    case: Case, when: str, sources: dict[str, str], directory: Path
) -> tuple[list[Figure], CoverageReport]:
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
    for stage in (MODEL, SET, RANGES):
        run_stage(context, stage)
    if not model.exists():
        copytree(root / MODEL.folder, model)
    drift = DriftReport.read(context.folder("10_set") / "drift.json")
    coverage = CoverageReport.read(context.folder("20_ranges") / "coverage.json")
    verifier, plan = everything_int8(context)
    by_metric = {measure.metric: measure for measure in verifier.run(plan).measures}
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
        Figure(f"{label}cosine of int8 outputs, mean", by_metric["cosine"].value),
    ]
    if "perplexity" in by_metric:  # the damage is the logarithm of the ratio to fp32's
        rise = math.expm1(by_metric["perplexity"].damage)
        figures.append(Figure(f"{label}perplexity over that of fp32, less 1", rise))
    return figures, coverage


def _write(directory: Path, name: str, records: Records) -> str:
    """The records as JSON lines; returns the file's path."""
    path = directory / f"{name}.jsonl"
    directory.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)
