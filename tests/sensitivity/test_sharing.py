"""A sweep that several workers share out is, byte by byte, that of one."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import pytest

from quantflow.runtime.workers import Workers
from quantflow.sensitivity.segmented_model import SegmentedModel
from quantflow.stages import work_3_sweep
from quantflow.stages.pipeline import run_stage
from quantflow.stages.stage_3_sweep import STAGE
from tests.distributed.threads import together

from .projects import context_of, encoder_project, redundant_project, run_until

PROJECTS = {
    "encoder": lambda folder: encoder_project(folder, blocks=1),
    "redundant": redundant_project,
}


@pytest.fixture(autouse=True)
def _threads_like_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until Python 3.12, a cached property holds one lock for all instances while it is computed,
    and what is computed here waits for the other workers."""
    for found in vars(work_3_sweep.Parts).values():
        if isinstance(found, cached_property) and hasattr(found, "lock"):
            monkeypatch.setattr(found, "lock", nullcontext())


@pytest.fixture(scope="module", params=list(PROJECTS))
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = PROJECTS[request.param](tmp_path_factory.mktemp(request.param))
    run_until("20_ranges", config)
    return config


def sweep(config: Path, count: int, *overrides: str) -> dict[str, bytes]:
    """Stage 3 by so many workers: what the leader wrote, and a clean slate."""

    def work(workers: Workers) -> None:
        context = replace(context_of(config, *overrides), workers=workers)
        if workers.place.rank == 0:
            run_stage(context, STAGE)
        else:
            assert STAGE.assist is not None
            STAGE.assist(context)

    together(count, work)
    folder = config.parent / "run" / "30_sweep"
    written = {path.name: path.read_bytes() for path in folder.iterdir()}
    shutil.rmtree(folder)
    return written


def test_workers_come_to_the_bytes_of_one_whatever_happens_to_them(project: Path) -> None:
    expected = sweep(project, 1)
    assert sweep(project, 2) == expected
    with pytest.raises(KeyboardInterrupt):
        interrupt(project, 15)
    # The leader's journal has what they had measured; another number of workers goes on.
    assert sweep(project, 3) == expected


def test_more_workers_than_batches_share_them_and_do_no_harm(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[int]()
    real = SegmentedModel.run

    def counting(self: SegmentedModel, values, int8, *, start=0, side=None):
        calls.append(1)
        return real(self, values, int8, start=start, side=side)

    monkeypatch.setattr(SegmentedModel, "run", counting)
    few = ("plan.samples=3", "plan.halving=false")
    expected = sweep(project, 1, *few)
    alone = len(calls)
    assert sweep(project, 3, *few) == expected
    # Every batch was run by one worker, and by no other.
    assert len(calls) == 2 * alone > 0


def interrupt(config: Path, limit: int) -> None:
    """Stop two workers at the same step."""

    def work(workers: Workers) -> None:
        left = limit

        def progress(what: str, done: int, total: int) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

        context = replace(context_of(config), workers=workers, progress=progress)
        if workers.place.rank == 0:
            run_stage(context, STAGE)
        else:
            assert STAGE.assist is not None
            STAGE.assist(context)

    together(2, work)
