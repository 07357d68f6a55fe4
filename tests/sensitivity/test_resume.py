"""A sweep that is killed and started again ends in the same bytes as one left alone (C33, C34)."""

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
from quantflow.artifacts.run_directory import JOURNAL
from quantflow.progress import Progress
from quantflow.sensitivity.segmented_model import SegmentedModel
from quantflow.stages import work_3_sweep

from .projects import context_of, redundant_project, run_one, run_until

KILLS = 4


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project up to stage 2."""
    config = redundant_project(tmp_path_factory.mktemp("redundant"))
    run_until("20_ranges", config)
    return config


@pytest.fixture(scope="module")
def uninterrupted(project: Path) -> dict[str, bytes]:
    return finish(project)


@pytest.fixture(scope="module")
def entries(project: Path, uninterrupted: dict[str, bytes]) -> list[bytes]:
    """All lines of the journal of a sweep that is stopped just before it is finished."""
    stop_at_the_end(project)
    lines = journal_of(project).read_bytes().splitlines(keepends=True)
    shutil.rmtree(journal_of(project).parent)
    return lines


def finish(config: Path) -> dict[str, bytes]:
    """Run stage 3 to its end; what it wrote, and a clean slate."""
    run_one("30_sweep", config)
    folder = config.parent / "run" / "30_sweep"
    assert {p.name for p in folder.iterdir()} == {"plan.json", "sweep.json", "stage.json"}
    written = {p.name: p.read_bytes() for p in folder.iterdir()}
    shutil.rmtree(folder)
    return written


def stop_at_the_end(config: Path, *overrides: str) -> None:
    def interrupt(what: str, done: int, total: int) -> None:
        if what == "policies side by side" and done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_one("30_sweep", config, *overrides, progress=interrupt)


def journal_of(config: Path) -> Path:
    return config.parent / "run" / "30_sweep.partial" / "journal.jsonl"


def sweep_in_a_process(config: Path) -> None:
    run_one("30_sweep", config)


def test_two_runs_are_the_same_bytes(
    tmp_path: Path, uninterrupted: dict[str, bytes], project: Path
) -> None:
    other = redundant_project(tmp_path / "another place")
    run_until("20_ranges", other)
    found = finish(other)
    for name in ("plan.json", "sweep.json"):
        assert found[name] == uninterrupted[name]
    assert finish(project) == uninterrupted


def test_the_search_has_something_to_do(
    uninterrupted: dict[str, bytes], entries: list[bytes]
) -> None:
    assert b'"n_a"' in uninterrupted["plan.json"] and b"rank" in uninterrupted["plan.json"]
    kinds = {line.split(b'"')[3].split(b" ")[0].split(b"\\n")[0] for line in entries}
    assert kinds == {b"score", b"everything", b"fp16", b"verified", b"only"}
    assert len(entries) == len(set(entries))


def test_a_kill_after_any_entry_or_in_the_midst_of_one_changes_nothing(
    project: Path, uninterrupted: dict[str, bytes], entries: list[bytes], tmp_path: Path
) -> None:
    for count in sorted({*range(0, len(entries), 2), len(entries)}):
        folder = tmp_path / str(count)
        folder.mkdir()
        following = [*entries, b""][count]
        half = following[: len(following) // 2 if count % 4 else 0]
        (folder / JOURNAL).write_bytes(b"".join(entries[:count]) + half)
        work_3_sweep.work(context_of(project), folder)
        for name in ("plan.json", "sweep.json"):
            found = (folder / name).read_bytes()
            assert found == uninterrupted[name], f"killed after {count} entries"
        assert (folder / JOURNAL).read_bytes() == b"".join(entries)


def test_a_sweep_killed_at_random_moments_gives_the_same_bytes(
    project: Path, uninterrupted: dict[str, bytes]
) -> None:
    # Processes start from a server that has everything imported, but has never run a model.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
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
        journal = journal_of(project)
        lengths.append(len(journal.read_bytes().splitlines()) if journal.exists() else 0)
        if killed % 3 == 0:
            assert finish(project) == uninterrupted
        if killed >= KILLS:
            break
    assert killed >= KILLS - 1
    assert any(lengths), "no kill came after the first result"
    shutil.rmtree(journal_of(project).parent, ignore_errors=True)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[object, ...]]:
    """How often the segmented model was run, by INT8 groups, first segment and side."""
    found = Counter[tuple[object, ...]]()
    real = SegmentedModel.run

    def counting(self: SegmentedModel, values, int8, *, start=0, side=None):
        found[int8, start, side] += 1
        return real(self, values, int8, start=start, side=side)

    monkeypatch.setattr(SegmentedModel, "run", counting)
    return found


def test_results_that_were_noted_are_not_measured_again(
    project: Path, uninterrupted: dict[str, bytes], runs: Counter[tuple[object, ...]]
) -> None:
    finish(project)
    alone = runs.copy()
    runs.clear()

    def interrupt_after(steps: int) -> Progress:
        left = steps

        def progress(what: str, done: int, total: int) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

        return progress

    interruptions = 0
    for limit in range(3, 1000, 7):
        try:
            run_one("30_sweep", project, progress=interrupt_after(limit))
        except KeyboardInterrupt:
            interruptions += 1
        else:
            break
    assert interruptions >= 3
    folder = project.parent / "run" / "30_sweep"
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == uninterrupted
    shutil.rmtree(folder)
    # The reference is measured at every start; every score and every plan only once.
    reference = (frozenset[str](), 0, None)
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
    partial = journal_of(project).parent
    assert journal_of(project).exists()
    before = path_digest(project.parent / "run" / "20_ranges")
    assert finish(project) == uninterrupted
    assert not partial.exists()
    assert path_digest(project.parent / "run" / "20_ranges") == before
