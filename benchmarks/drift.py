"""Does the drift gate tell real text apart, and does it keep quiet when there is nothing to tell?

Draws of Wikipedia paragraphs are judged by other paragraphs, and by them draws of Python functions,
with the text, token and output features of all-MiniLM-L6-v2. Nothing is timed.

    python benchmarks/drift.py [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from quantflow.artifacts.drift_record import DriftReport
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.calibration.draw import Pool, draw, shuffled
from quantflow.calibration.drift.report import drift_report
from quantflow.calibration.features.extract import Extractor
from quantflow.calibration.features.model import OutputFeatures
from quantflow.calibration.features.table import FeatureTable
from quantflow.calibration.features.tokens import unknown_id
from quantflow.calibration.gate import choose
from quantflow.calibration.preprocess import make_preprocessor
from quantflow.config import load_config
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.stages.pipeline import run_stage
from quantflow.stages.stage import Context
from quantflow.stages.stage_0_model import STAGE as MODEL
from quantflow.user_code import load_function

SET = Path(__file__).parents[1] / "calibration_sets" / "minilm_wikipedia"
SOURCES = {
    "candidate prose": "data:calibration_paragraphs",
    "deployment prose": "data:deployment_paragraphs",
    "code": "data:python_functions",
}
SAMPLES = 500
"""Samples of every source, which the draws are made from."""
DRAWS, SIZE = 20, 200
SELECTED, SELECTIONS = 64, 10


@dataclass(frozen=True)
class Row:
    """One figure: how many of the draws came out as they should."""

    what: str
    expected: str
    count: int
    draws: int
    target: int | None
    note: str

    @property
    def ok(self) -> bool:
        """Whether the target is met; true without one."""
        return self.target is None or self.count >= self.target


def main() -> int:
    """Print the table; returns 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here, too")
    path: Path | None = parser.parse_args().json
    tables = measure_samples()
    rows = [*gate_rows(tables), *selection_rows(tables)]
    print(f"{'what':54}{'expected':>9}{'draws':>8}{'target':>8}      note")
    for row in rows:
        target = "-" if row.target is None else f">= {row.target}"
        mark = "" if row.target is None else ("ok" if row.ok else "MISSED")
        count = f"{row.count}/{row.draws}"
        print(f"{row.what:54}{row.expected:>9}{count:>8}{target:>8} {mark:7}{row.note}")
    if path is not None:
        path.write_text(json.dumps([{**asdict(row), "ok": row.ok} for row in rows], indent=1))
    return 0 if all(row.ok for row in rows) else 1


def measure_samples() -> dict[str, FeatureTable]:
    """Features of `SAMPLES` samples of every source, from the demo's own model and settings."""
    with tempfile.TemporaryDirectory() as directory:
        loaded = load_config(SET / "quantflow.toml", [f"run.directory={directory}"])
        context = Context(loaded, RunDirectory(loaded.run_directory))
        run_stage(context, MODEL)
        folder, settings = context.folder("00_model"), loaded.config.set.preprocess
        record = ModelRecord.read(folder / "model.json")
        runner = OnnxRuntimeRunner(folder / "model.onnx", loaded.config.runtime)
        outputs = OutputFeatures(runner, record, loaded.config.runtime.batch)
        unknown = unknown_id(loaded.resolve(settings.tokenizer or ""))
        extract = Extractor(record.inputs, unknown, outputs)
        preprocess = make_preprocessor(settings, record.inputs, SET)
        tables = dict[str, FeatureTable]()
        for name, function in SOURCES.items():
            records = load_function(function, SET)()
            order = shuffled(len(records), seed=0, stream=len(tables))
            pool = Pool(name, records, order, settings.column)
            tables[name] = extract(draw(pool, SAMPLES, preprocess), name)
        return tables


def gate_rows(tables: dict[str, FeatureTable]) -> list[Row]:
    """Prose against prose, prose of other articles, and code."""
    prose = joined(tables["candidate prose"], tables["deployment prose"])
    same, other, code = list[DriftReport](), list[DriftReport](), list[DriftReport]()
    for seed in range(DRAWS):
        order = np.random.default_rng([seed, 0]).permutation(len(prose))
        deployment = prose.take(order[SIZE : 2 * SIZE])
        same.append(drift_report(prose.take(order[:SIZE]), deployment, seed=seed))
        code.append(drift_report(drawn(tables["code"], seed), deployment, seed=seed))
        parts = [drawn(tables[f"{name} prose"], seed) for name in ("candidate", "deployment")]
        other.append(drift_report(parts[0], parts[1], seed=seed))
    named = Counter(report.features[0].feature for report in code)
    worst = max(report.features[0].effect / report.warn_above for report in same)
    failed = sum(report.verdict == "fail" for report in other)
    return [
        row("prose against prose", "pass", same, 19, f"largest effect {worst:.2f} of the limit"),
        row("prose against code", "fail", code, 20, f"named first: {named.most_common(1)[0][0]}"),
        row("prose of other articles", "warn", other, None, f"fail: {failed} of {DRAWS}"),
    ]


def selection_rows(tables: dict[str, FeatureTable]) -> list[Row]:
    """A pool that is half code, before and after selection, and by samples not selected by."""
    before, after, unseen = list[DriftReport](), list[DriftReport](), list[DriftReport]()
    for seed in range(SELECTIONS):
        half = [drawn(tables[name], seed) for name in ("candidate prose", "code")]
        order = np.random.default_rng([seed, 1]).permutation(2 * SIZE)
        pool = joined(*half).take(order)
        production = drawn(tables["deployment prose"], seed, 2 * SIZE)
        seen, rest = (production.take(range(i * SIZE, (i + 1) * SIZE)) for i in range(2))
        choice = choose(pool, seen, SELECTED, selection="match", seed=seed)
        before.append(drift_report(pool.take(range(SELECTED)), seen, seed=seed))
        after.append(choice.report)
        unseen.append(drift_report(pool.take(choice.rows), rest, seed=seed))
    auc = np.mean([report.classifier.auc for report in unseen if report.classifier])
    return [
        row(f"{SELECTED} of a pool half code, at random", "fail", before, None, ""),
        row("re-selected to match", "pass", after, SELECTIONS, ""),
        row("  the same, by other deployment samples", "pass", unseen, None, f"AUC {auc:.2f}"),
    ]


def row(
    what: str, expected: str, reports: Sequence[DriftReport], target: int | None, note: str
) -> Row:
    """How many of the reports have the expected verdict."""
    count = sum(report.verdict == expected for report in reports)
    return Row(what, expected, count, len(reports), target, note)


def drawn(table: FeatureTable, seed: int, size: int = SIZE) -> FeatureTable:
    """Some of the samples, by chance."""
    return table.take(np.random.default_rng([seed, 2]).permutation(len(table))[:size])


def joined(a: FeatureTable, b: FeatureTable) -> FeatureTable:
    """The samples of both tables, which have the same features."""
    return FeatureTable(
        ids=a.ids + b.ids,
        digests=a.digests + b.digests,
        names=a.names,
        values=np.concatenate([a.values, b.values]),
        counts={name: np.concatenate([a.counts[name], b.counts[name]]) for name in a.counts},
    )


if __name__ == "__main__":
    sys.exit(main())
