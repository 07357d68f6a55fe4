"""How accurate a model is in every precision, by quantflow and by others, and what recovers it.

All figures are of held-out samples, next to the float model; int8 is the deploy file lowered to
integer operators, FP19 and fp16 rounding included (emulated). Peers get the same float model and
the same calibration samples, and their QDQ files run in onnxruntime on the same held-out samples:
they quantize for other hardware, and choose by themselves what stays float.

The table has fp32, fp16, int8 by every estimator with everything INT8, then policies, then both
with the optimization and further plans, then peers. The recovery has every technique alone and all
together.

`expected_accuracy.json` has an interval for figures of the table, wider than what rounding flips
do; a figure that leaves it counts as missed.

    python benchmarks/accuracy.py [--only MODEL] [--part table|recovery] [--directory DIR]
                                  [--plot FILE] [--json FILE]

MODEL is minilm, minilm-classes, minilm-per-tensor, smollm2, smollm2-code or efficientnet. With a
directory, rows that are there are shown again and not measured.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from _harness import Figure, finish, parser
from _precisions import Row, figures_of, read_rows, table_ways, write_rows
from _recovery import JOBS, Job, context_of, recovery_figures
from rich.console import Console
from rich.table import Table

from quantflow.stages.pipeline import run_stage
from quantflow.stages.stage_0_model import STAGE as MODEL
from quantflow.stages.stage_1_set import STAGE as SET
from quantflow.stages.stage_2_ranges import STAGE as RANGES

LEAST_SHOWN = 1e-7
"""Distance from fp32 that the plot begins with."""

LONGEST_LINE = 38
"""Letters beside a bar."""

EXPECTED = Path(__file__).with_name("expected_accuracy.json")


def main() -> int:
    """Measure and print; 1 when a target is missed."""
    options = parser(__doc__ or "")
    options.add_argument("--only", choices=tuple(JOBS), help="one model")
    options.add_argument("--part", choices=("table", "recovery"), help="one of the two")
    options.add_argument("--directory", type=Path, help="where runs are kept")
    options.add_argument("--plot", type=Path, help="where the plot of the table goes, an SVG")
    chosen = options.parse_args()
    figures, rows = list[Figure](), list[Row]()
    with tempfile.TemporaryDirectory() as temporary:
        directory = chosen.directory or Path(temporary)
        for name, job in JOBS.items():
            if chosen.only not in (None, name):
                continue
            if chosen.part != "recovery":
                rows += rows_of(name, job, directory)
            if chosen.part != "table":
                prepare(job, directory)
                figures += recovery_figures(name, job, directory)
    if rows:
        print_table(rows)
    if rows and chosen.plot:
        plot(rows, chosen.plot)
    figures = [*figures_of(rows, json.loads(EXPECTED.read_text())), *figures]
    return finish("Accuracy, held-out samples, emulated", figures, chosen.json)


def rows_of(name: str, job: Job, directory: Path) -> list[Row]:
    """The rows of a model, each of which is kept in the directory as soon as it is measured."""
    file = directory / f"{name}.rows.json"
    kept = {row.way: row for row in read_rows(file)} if file.is_file() else {}
    ways = table_ways(name, job, directory)
    missing = [way for way in ways if way not in kept]
    if missing:
        prepare(job, directory)
    for way in missing:
        row = ways[way](way)
        if row is None:
            continue
        kept[way] = row
        write_rows(file, [kept[x] for x in ways if x in kept])
    return [kept[way] for way in ways if way in kept]


def prepare(job: Job, directory: Path) -> None:
    """Model, set and ranges of a job."""
    for stage in (MODEL, SET, RANGES):
        run_stage(context_of(job, directory), stage)


def print_table(rows: Sequence[Row]) -> None:
    """All rows with their intervals."""
    table = Table(title="Held-out samples, emulated; 95% intervals over samples")
    for column in ("model", "way", "metric", "INT8", "value", "distance from fp32", "cosine"):
        table.add_column(
            column, justify="left" if column in ("model", "way", "metric") else "right"
        )
    table.add_column("least", justify="right")
    table.add_column("tasks", justify="right")
    for x in rows:
        share = "-" if x.int8_mac_fraction is None else f"{x.int8_mac_fraction:.1%}"
        tasks = [f"{kind} {v:.3f} ({a:.3f} to {b:.3f})" for kind, (v, a, b) in x.tasks.items()]
        damage = f"{x.damage:.2g} ({x.low:.2g} to {x.high:.2g})"
        cosines = f"{x.cosine_mean:.5f}", f"{x.cosine_min:.4f}"
        table.add_row(
            x.model,
            x.way,
            x.metric,
            share,
            f"{x.value:.5g}",
            damage,
            *cosines,
            "\n".join(tasks) or "-",
        )
    Console(width=150).print(table)


def plot(rows: Sequence[Row], path: Path) -> None:
    """Distance from fp32 of every way, a panel a model, with intervals."""
    models = list(dict.fromkeys(x.model for x in rows))
    most = max(sum(x.model == model for x in rows) for model in models)
    across = min(len(models), 2)
    down = -(-len(models) // across)
    pyplot: Any = plt  # partly untyped
    figure, panels = pyplot.subplots(
        down,
        across,
        figsize=(6 * across, (0.35 * most + 1) * down),
        squeeze=False,
        layout="constrained",
    )
    for panel in panels.flat[len(models) :]:
        panel.set_axis_off()
    for panel, model in zip(panels.flat, models, strict=False):
        some = [x for x in rows if x.model == model and x.way != "fp32"][::-1]
        damage = np.maximum([x.damage for x in some], LEAST_SHOWN)
        ends = np.array([[x.damage - x.low, x.high - x.damage] for x in some]).T
        panel.barh(range(len(some)), damage, xerr=np.maximum(ends, 0), color="#4c78a8")
        panel.set_xscale("log")  # from fp16 to the worst way it is five decades
        panel.set_yticks(range(len(some)), [fill(x.way, LONGEST_LINE) for x in some])
        panel.set_xlabel(f"{some[0].metric}: distance from fp32")
        panel.set_title(f"{model}, 95% intervals")
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    sys.exit(main())
