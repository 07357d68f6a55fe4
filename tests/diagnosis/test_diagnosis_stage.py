"""The diagnosis as a stage: done once, gone on with after a kill, never outdated unnoticed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from quantflow.artifacts.optimize_record import OptimizeRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.run_directory import JOURNAL, RunDirectory
from quantflow.errors import QuantflowError
from quantflow.evaluation.asked import Missed
from quantflow.evaluation.trials import Found, Trials
from quantflow.report.artifacts import read_artifacts
from quantflow.stages.diagnosis import FOLDER
from tests.sensitivity.projects import run_one, run_until

from .planted import TIGHT, diagnose, diagnosed, project, read, removed, smoothable, sound


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with ranges."""
    config = project(tmp_path_factory.mktemp("sound"), sound())
    run_until("20_ranges", config, TIGHT)
    return config


def folder(config: Path) -> Path:
    return config.parent / "run" / FOLDER


def written(config: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder(config).iterdir()}


def test_a_killed_diagnosis_measures_nothing_twice(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = Counter[str]()
    original = Trials._noted

    def counting(self: Trials, name: str, run: object) -> Found:
        def counted() -> Found:
            measured[name] += 1
            return run()  # type: ignore[operator]

        return original(self, name, counted)

    monkeypatch.setattr(Trials, "_noted", counting)
    diagnose(base, TIGHT, samples=8, force=True)
    whole, once = written(base), dict(measured)
    assert set(whole) == {"diagnosis.json", "stage.json"} and set(once.values()) == {1}
    measured.clear()
    shutil.rmtree(folder(base))
    for stopped in (3, 6):

        def interrupt(what: str, done: int, total: int, at: int = stopped) -> None:
            if what.startswith("experiments") and done == at:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            diagnose(base, TIGHT, samples=8, progress=interrupt)
    journal = base.parent / "run" / f"{FOLDER}.partial" / JOURNAL
    assert all(json.loads(line)["key"] for line in journal.read_text().splitlines())
    diagnose(base, TIGHT, samples=8)
    assert dict(measured) == once and written(base) == whole


def test_a_process_that_is_killed_leaves_what_it_has_measured(base: Path) -> None:
    diagnose(base, TIGHT, samples=8, force=True)
    whole = written(base)
    shutil.rmtree(folder(base))
    command = [sys.executable, "-m", "quantflow", "diagnose", "-q", "-c", str(base)]
    process = subprocess.Popen([*command, "--samples", "8", "--set", TIGHT])
    journal = base.parent / "run" / f"{FOLDER}.partial" / JOURNAL
    while process.poll() is None and lines(journal) < 4:
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert lines(journal) >= 4  # it had not come to its end
    diagnose(base, TIGHT, samples=8)
    assert written(base) == whole


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_what_has_not_changed_is_not_diagnosed_again(base: Path) -> None:
    diagnose(base, samples=8)
    assert not diagnose(base, samples=8).ran
    assert diagnose(base, samples=9).ran and read(base).samples == 9
    assert diagnose(base, "budget.cosine_mean=0.9", samples=9).ran


def test_a_diagnosis_of_other_ranges_is_not_shown(base: Path) -> None:
    diagnose(base, samples=8)
    run = RunDirectory(base.parent / "run")
    assert read_artifacts(run).diagnosis is not None
    run_one("20_ranges", base, 'quantization.estimator="kl"')
    found = read_artifacts(run)
    assert found.diagnosis is None and FOLDER in found.outdated
    with pytest.raises(QuantflowError, match="QF407"):
        diagnose(base, samples=8)
    run_one("20_ranges", base)
    assert not diagnose(base, samples=8).ran


def test_a_diagnosis_of_another_plan_is_not_shown(base: Path) -> None:
    run_one("30_sweep", base)
    diagnose(base, samples=8)
    run = RunDirectory(base.parent / "run")
    assert read_artifacts(run).diagnosis is not None
    path = run.folder("30_sweep") / "plan.json"
    plan = PrecisionPlan.read(path)
    groups = {name: x.model_copy(update={"precision": "fp16"}) for name, x in plan.groups.items()}
    plan.model_copy(update={"groups": groups}).write(path)
    assert read_artifacts(run).diagnosis is None
    assert diagnose(base, samples=8).ran
    int8, fp16 = (x.measures[0].damage for x in reversed(read(base).experiments))
    assert int8 == fp16  # the plan has nothing in INT8


def test_ranges_are_tried_on_the_model_that_the_optimization_made(tmp_path: Path) -> None:
    config = project(tmp_path, smoothable(), scale=0.5, production=0.7, settings="")
    found = diagnosed(config, TIGHT, last="25_optimize")
    run = config.parent / "run"
    kept = OptimizeRecord.read(run / "25_optimize" / "optimize.json").passes
    assert [x.kept for x in kept] == [True, True, True]  # smoothed, rounded and corrected
    assert (run / "25_optimize" / "weights.safetensors").exists()
    assert found.finding == "data" and removed(found, "ranges of deployment") > 0.9


def test_within_the_budget_a_plan_that_halves_the_distance_is_asked_for(tmp_path: Path) -> None:
    config = project(tmp_path, sound())
    loose = ("budget.cosine_mean=0.9", 'plan.policy="auto"')
    run_until("25_optimize", config, *loose)
    diagnose(config, *loose, samples=8)
    assert read(config).finding == "nothing" and read(config).next_step == ""
    diagnose(config, *loose, samples=8, anyway=True)
    found = read(config)
    assert found.within_budget and not found.misses_budget and found.finding == "activations"
    command, _, cosine = found.next_step.rpartition("=")
    assert command == "quantflow sweep --set budget.cosine_mean"
    distance = 1 - found.experiments[1].measures[0].value
    assert 1 - float(cosine) == pytest.approx(distance / 2, rel=0.06)  # two digits of it
    missed = Missed(64, "spearman", "budget.task_drop is 0.01")
    assert diagnose(config, *loose, samples=8, missed=missed).ran
    assert read(config).misses_budget and read(config).finding == "activations"
