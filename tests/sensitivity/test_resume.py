"""A sweep that is killed and started again ends in the same bytes as one that was left alone."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from quantflow.artifacts.digest import path_digest
from quantflow.sensitivity.segmented_model import SegmentedModel

from .projects import redundant_project, run_one, run_until

KILLS = 12


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project up to stage 2."""
    config = redundant_project(tmp_path_factory.mktemp("redundant"))
    run_until("20_ranges", config)
    return config


@pytest.fixture(scope="module")
def uninterrupted(project: Path) -> dict[str, bytes]:
    return finish(project)


def finish(config: Path) -> dict[str, bytes]:
    """Run stage 3 to its end; what it wrote, and a clean slate."""
    run_one("30_sweep", config)
    folder = config.parent / "run" / "30_sweep"
    assert {p.name for p in folder.iterdir()} == {"plan.json", "sweep.json", "stage.json"}
    written = {p.name: p.read_bytes() for p in folder.iterdir()}
    shutil.rmtree(folder)
    return written


def sweep_in_a_process(config: Path) -> None:
    run_one("30_sweep", config)


def test_the_search_has_something_to_do(uninterrupted: dict[str, bytes]) -> None:
    text = uninterrupted["sweep.json"].decode()
    assert all(f'"step": "{step}"' in text for step in ("forward", "backward", "beyond"))


def test_a_sweep_killed_at_random_moments_gives_the_same_bytes(
    project: Path, uninterrupted: dict[str, bytes]
) -> None:
    # Processes start from a server that has everything imported, but has never run a model.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    journal = project.parent / "run" / "30_sweep.partial" / "journal.jsonl"
    rng = np.random.default_rng(0)
    killed, lengths, span = 0, list[int](), 0.0
    for _ in range(6 * KILLS):
        process = context.Process(target=sweep_in_a_process, args=(project,))
        process.start()
        started = time.monotonic()
        if not span:  # the first one is left alone, to know how long it takes
            process.join(60)
            span = time.monotonic() - started
        process.join(float(rng.uniform(0, span)))
        process.kill()
        process.join(60)
        assert process.exitcode in (0, -signal.SIGKILL)
        if process.exitcode == 0:
            assert finish(project) == uninterrupted
            continue
        killed += 1
        lengths.append(len(journal.read_bytes().splitlines()) if journal.exists() else 0)
        if killed % 4 == 0:
            assert finish(project) == uninterrupted
        if killed >= KILLS:
            break
    assert killed >= 10
    assert any(lengths), "no kill came after the first result"


def test_results_that_were_noted_are_not_measured_again(
    project: Path, uninterrupted: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Counter[tuple[frozenset[str], int]]()
    real = SegmentedModel.run

    def counting(self: SegmentedModel, values: object, int8: frozenset[str], *, start: int = 0):
        runs[int8, start] += 1
        return real(self, values, int8, start=start)

    monkeypatch.setattr(SegmentedModel, "run", counting)
    finish(project)
    alone = runs.copy()
    runs.clear()

    steps = 0

    def interrupt(what: str, done: int, total: int) -> None:
        nonlocal steps
        steps -= 1
        if steps == 0:
            raise KeyboardInterrupt

    interruptions = 0
    for limit in range(3, 1000, 5):
        steps = limit
        try:
            run_one("30_sweep", project, progress=interrupt)
        except KeyboardInterrupt:
            interruptions += 1
        else:
            break
    assert interruptions >= 3
    folder = project.parent / "run" / "30_sweep"
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == uninterrupted
    shutil.rmtree(folder)
    # The reference is measured at every start; every score and every plan only once.
    reference = (frozenset[str](), 0)
    assert {key: n for key, n in runs.items() if key != reference} == {
        key: n for key, n in alone.items() if key != reference
    }


def test_a_journal_of_other_settings_is_not_used(
    project: Path, uninterrupted: dict[str, bytes]
) -> None:
    def interrupt(what: str, done: int, total: int) -> None:
        if what == "plans tried":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_one("30_sweep", project, "plan.samples=3", progress=interrupt)
    partial = project.parent / "run" / "30_sweep.partial"
    assert (partial / "journal.jsonl").exists()
    before = path_digest(project.parent / "run" / "20_ranges")
    assert finish(project) == uninterrupted
    assert not partial.exists()
    assert path_digest(project.parent / "run" / "20_ranges") == before
