"""Does the gate tell texts apart, keep quiet when there is nothing to tell, and does repair help?

Draws of 200 paragraphs, functions and Chinese paragraphs are judged with the features of
all-MiniLM-L6-v2, from the data and from a profile in a file. Then the model is calibrated on one
kind of text, quantized whole, and run on another, before and after re-selection. Nothing is timed.

    python benchmarks/drift.py [--json FILE] [--only gate|repair|smollm2]
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _harness import Figure, finish, parser
from _repair import CASES, repair_figures

from quantflow.artifacts.drift_record import DriftReport
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.record import Verdict
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.calibration.draw import Batch, Pool, draw, shuffled
from quantflow.calibration.drift.report import drift_report
from quantflow.calibration.features.measure import Measurer, extractor_of
from quantflow.calibration.features.model import ModelFeatures
from quantflow.calibration.features.table import FeatureTable, concatenate
from quantflow.calibration.gate import choose
from quantflow.calibration.preprocess import make_preprocessor
from quantflow.calibration.profile.profile import Profile, make_profile
from quantflow.calibration.profile.profile_file import load_profile, save_profile
from quantflow.config import load_config
from quantflow.graph.model_io import load_model
from quantflow.stages.pipeline import run_stage
from quantflow.stages.stage import Context
from quantflow.stages.stage_0_model import STAGE as MODEL
from quantflow.user_code import load_function

SETS = Path(__file__).parents[1] / "calibration_sets"
SOURCES = {
    "prose": ("english_prose", "data:candidate_paragraphs"),
    "deployment prose": ("english_prose", "data:deployment_paragraphs"),
    "code": ("python_code", "data:candidate_functions"),
    "chinese": ("chinese_text", "data:candidate_paragraphs"),
    "short": ("english_prose", "lengths:short_candidates"),
    "long": ("english_prose", "lengths:long_deployment"),
}
SAMPLES = 500
"""Samples of every source, which the draws are made from."""
DRAWS, SIZE = 20, 200
SELECTED, SELECTIONS = 64, 10
CONTAMINATED = SIZE // 10


@dataclass(frozen=True, slots=True)
class Tables:
    """Features of every source, and how many of them need no model."""

    by_name: dict[str, FeatureTable]
    inputs: int

    def drawn(self, name: str, seed: int, size: int = SIZE, skip: int = 0) -> FeatureTable:
        """Some of a source's samples, by chance; with `skip`, others than those."""
        table = self.by_name[name]
        order = np.random.default_rng([seed, 2]).permutation(len(table))
        return table.take(order[skip : skip + size])

    def profile(self, table: FeatureTable) -> Profile:
        """The profile of a deployment sample."""
        return make_profile(table, self.inputs)


def main() -> int:
    """Print the figures; returns 1 when a target is missed."""
    options = parser(__doc__.partition("\n")[0] if __doc__ else "")
    options.add_argument("--only", choices=("gate", "repair", "smollm2"), help="one part")
    given = options.parse_args()
    figures = list[Figure]()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        if given.only in (None, "gate"):
            tables = measure_samples(directory)
            figures += [*gate_figures(tables, directory), *selection_figures(tables)]
        for case in CASES:
            if given.only == case.part or (given.only is None and case.part == "repair"):
                figures += repair_figures(case, directory)
    return finish("Calibration sets against deployment", figures, given.json)


def measure_samples(directory: Path) -> Tables:
    """Features of `SAMPLES` samples of every source, from the demo's own model and settings."""
    config = SETS / "english_prose" / "quantflow.toml"
    loaded = load_config(config, [f'run.directory="{directory / "minilm"}"'])
    context = Context(loaded, RunDirectory(loaded.run_directory))
    run_stage(context, MODEL)
    folder, settings = context.folder("00_model"), loaded.config.set.preprocess
    record = ModelRecord.read(folder / "model.json")
    buckets = loaded.config.target.buckets
    model = ModelFeatures.of(
        load_model(folder / "model.onnx"), record, loaded.config.runtime, buckets
    )
    measure = Measurer(extractor_of(settings, record.inputs, loaded.base), model)
    preprocess = make_preprocessor(settings, record.inputs, loaded.base)
    tables, inputs = dict[str, FeatureTable](), 0
    for number, (name, (folder_name, function)) in enumerate(SOURCES.items()):
        records: Sequence[Any] = load_function(function, SETS / folder_name)()
        parts: list[FeatureTable] = []

        def observe(batch: Batch, parts: list[FeatureTable] = parts) -> None:
            parts.append(measure.extract(batch))

        pool = Pool(name, records, shuffled(len(records), seed=0, stream=number), settings.column)
        drawn = draw(pool, min(SAMPLES, len(records)), preprocess, observe=observe)
        measured = measure(concatenate(parts), drawn.samples, name)
        tables[name], inputs = measured.table, measured.inputs
    return Tables(tables, inputs)


def gate_figures(tables: Tables, directory: Path) -> list[Figure]:
    """Verdicts on 20 draws of each kind, from the data and from a profile in a file."""
    prose = concatenate([tables.by_name["prose"], tables.by_name["deployment prose"]])

    def of_prose(seed: int, part: int, size: int = SIZE) -> FeatureTable:
        order = np.random.default_rng([seed, 0]).permutation(len(prose))
        return prose.take(order[part * SIZE : part * SIZE + size])

    def contaminated(seed: int) -> FeatureTable:
        clean = of_prose(seed, 0, SIZE - CONTAMINATED)
        return concatenate([clean, tables.drawn("code", seed, CONTAMINATED)])

    kinds: list[tuple[str, Callable[[int], FeatureTable], str, set[Verdict], int | None]] = [
        ("prose against prose", lambda seed: of_prose(seed, 0), "", {"pass"}, 19),
        ("code", lambda seed: tables.drawn("code", seed), "", {"fail"}, 20),
        ("Chinese", lambda seed: tables.drawn("chinese", seed), "", {"fail"}, 20),
        ("prose, a tenth of it code", contaminated, "", {"warn", "fail"}, 18),
        ("long", lambda seed: tables.drawn("long", seed), "short", {"fail"}, 20),
        ("short", lambda seed: tables.drawn("short", seed), "long", {"fail"}, 20),
        ("prose of other articles", lambda seed: tables.drawn("prose", seed), "deployment prose",
         {"warn", "fail"}, None),
    ]  # fmt: skip
    figures, equal, total = list[Figure](), 0, 0
    for name, calibration, production, wanted, target in kinds:
        reports = list[DriftReport]()
        for seed in range(DRAWS):
            sample = tables.drawn(production, seed) if production else of_prose(seed, 1)
            profile = tables.profile(sample)
            save_profile(directory / "p.safetensors", profile)
            reports.append(drift_report(calibration(seed), profile, seed=seed, rows=sample))
            again = load_profile(directory / "p.safetensors")
            alone = drift_report(calibration(seed), again, seed=seed)
            total += 1
            equal += alone == reports[-1].model_copy(update={"classifier": None})
        right = sum(report.verdict in wanted for report in reports)
        against = f" against {production}" if production else " against prose"
        name = name if " against " in name else name + against
        label = f"{name}: {' or '.join(sorted(wanted))}, of {DRAWS}{_named(reports)}"
        figures.append(Figure(label, right, target))
    return [*figures, Figure(f"same report from a profile's file, of {total}", equal, total)]


def selection_figures(tables: Tables) -> list[Figure]:
    """A pool that is half code, before and after selection, and by samples not selected by."""
    before, after, unseen = list[DriftReport](), list[DriftReport](), list[DriftReport]()
    for seed in range(SELECTIONS):
        half = concatenate([tables.drawn(name, seed) for name in ("prose", "code")])
        pool = half.take(np.random.default_rng([seed, 1]).permutation(2 * SIZE))
        seen = tables.drawn("deployment prose", seed)
        rest = tables.drawn("deployment prose", seed, skip=SIZE)
        choice = choose(pool, tables.profile(seen), SELECTED, selection="match", seed=seed)
        first = pool.take(range(SELECTED))
        before.append(drift_report(first, tables.profile(seen), seed=seed))
        after.append(choice.report)
        unseen.append(drift_report(pool.take(choice.rows), tables.profile(rest), seed=seed))
    return [
        Figure(f"{label}, of {SELECTIONS}", sum(x.verdict in wanted for x in reports), target)
        for label, reports, wanted, target in (
            (f"{SELECTED} of a pool half code, at random: fail", before, {"fail"}, None),
            ("re-selected to match: pass", after, {"pass"}, SELECTIONS),
            ("the same, by other deployment samples: pass", unseen, {"pass"}, None),
        )
    ]


def _named(reports: Sequence[DriftReport]) -> str:
    """The feature that is named first most often, where any is."""
    named = Counter(r.features[0].feature for r in reports if r.verdict != "pass")
    if not named:
        return ""
    (name, count), *_ = named.most_common(1)
    return f" ({name} first in {count})"


if __name__ == "__main__":
    sys.exit(main())
