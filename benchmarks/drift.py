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
from pathlib import Path

import numpy as np
from _gate_samples import SIZE, Tables, measure_samples
from _harness import Figure, finish, parser
from _repair import repair_figures
from _repair_cases import CASES

from quantflow.artifacts.drift_record import DriftReport
from quantflow.artifacts.record import Verdict
from quantflow.calibration.drift.report import drift_report
from quantflow.calibration.features.table import FeatureTable, concatenate
from quantflow.calibration.gate import choose
from quantflow.calibration.profile.profile_file import load_profile, save_profile

DRAWS = 20
SELECTED, SELECTIONS = 64, 10
CONTAMINATED = SIZE // 10

Draw = Callable[[int], FeatureTable]
"""Samples by seed."""


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


def gate_figures(tables: Tables, directory: Path) -> list[Figure]:
    """Verdicts on 20 draws of each kind, from the data and from a profile in a file."""
    prose = concatenate([tables.by_name["prose"], tables.by_name["deployment prose"]])

    def of_prose(seed: int, part: int, size: int = SIZE) -> FeatureTable:
        order = np.random.default_rng([seed, 0]).permutation(len(prose))
        return prose.take(order[part * SIZE : part * SIZE + size])

    def of(name: str) -> Draw:
        return lambda seed: tables.drawn(name, seed)

    def contaminated(seed: int, part: int) -> FeatureTable:
        clean = of_prose(seed, part, SIZE - CONTAMINATED)
        return concatenate([clean, tables.drawn("code", seed, CONTAMINATED)])

    def calibration(seed: int) -> FeatureTable:
        return of_prose(seed, 0)

    def production(seed: int) -> FeatureTable:
        return of_prose(seed, 1)

    noticed: set[Verdict] = {"warn", "fail"}
    kinds: list[tuple[str, Draw, Draw, set[Verdict], int | None]] = [
        ("prose against prose", calibration, production, {"pass"}, 19),
        ("code against prose", of("code"), production, {"fail"}, 20),
        ("Chinese against prose", of("chinese"), production, {"fail"}, 20),
        ("prose, a tenth of it code, against prose", lambda seed: contaminated(seed, 0),
         production, noticed, 18),
        ("prose against prose, a tenth of it code", calibration,
         lambda seed: contaminated(seed, 1), noticed, 18),
        ("long against short", of("long"), of("short"), {"fail"}, 20),
        ("short against long", of("short"), of("long"), {"fail"}, 20),
        ("prose of other articles against deployment prose", of("prose"),
         of("deployment prose"), noticed, None),
    ]  # fmt: skip
    figures, equal, total = list[Figure](), 0, 0
    for name, ours, theirs, wanted, target in kinds:
        reports = list[DriftReport]()
        for seed in range(DRAWS):
            sample = theirs(seed)
            profile = tables.profile(sample)
            save_profile(directory / "p.safetensors", profile)
            reports.append(drift_report(ours(seed), profile, seed=seed, rows=sample))
            again = load_profile(directory / "p.safetensors")
            alone = drift_report(ours(seed), again, seed=seed)
            total += 1
            equal += alone == reports[-1].model_copy(update={"classifier": None})
        right = sum(report.verdict in wanted for report in reports)
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
