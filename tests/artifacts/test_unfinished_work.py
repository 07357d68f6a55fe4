"""What a stage wrote down before it was killed is there for the next attempt, and only for it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from quantflow.artifacts import run_directory as module
from quantflow.artifacts.journal import Journal
from quantflow.artifacts.run_directory import JOURNAL, RunDirectory
from quantflow.errors import QuantflowError

STAGE, VERSION = "30_sweep", "1.0"
INPUTS = {"model": "aa"}


class Killed(BaseException):
    """Stands for kill -9: nothing runs after it."""


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


def attempt(
    run: RunDirectory,
    key: str,
    *,
    fails: bool,
    inputs: dict[str, str] = INPUTS,
    former: str = "new",
) -> list[str]:
    """Note `key`, and finish or be killed; returns the keys that were known at the start."""
    with run.writing(STAGE, VERSION, inputs) as folder:
        journal = Journal(folder / JOURNAL)
        known = [k for k in "abcdef" if k in journal.entries]
        (folder / "plots").mkdir()
        (folder / "plots" / "half").write_text("x")
        journal.note(key, 1)
        if fails:
            raise Killed
        (folder / "plan.json").write_text(former)
    return known


def killed(run: RunDirectory, key: str, inputs: dict[str, str] = INPUTS) -> None:
    with pytest.raises(Killed):
        attempt(run, key, fails=True, inputs=inputs)


def test_the_same_work_goes_on_where_it_was_killed(run: RunDirectory) -> None:
    killed(run, "a")
    killed(run, "b")
    assert attempt(run, "c", fails=False) == ["a", "b"]


def test_nothing_but_the_journal_is_left_of_an_attempt(run: RunDirectory) -> None:
    killed(run, "a")
    with run.writing(STAGE, VERSION, INPUTS) as folder:
        assert [p.name for p in folder.iterdir() if not p.name.startswith(".")] == [JOURNAL]


def test_a_finished_stage_keeps_no_journal(run: RunDirectory) -> None:
    killed(run, "a")
    attempt(run, "b", fails=False)
    names = {p.relative_to(run.folder(STAGE)).as_posix() for p in run.folder(STAGE).rglob("*")}
    assert names == {"stage.json", "plan.json", "plots", "plots/half"}
    manifest = run.manifest(STAGE)
    assert manifest is not None and set(manifest.outputs) == {"plan.json", "plots/half"}
    assert attempt(run, "c", fails=False) == []


@pytest.mark.parametrize(
    ("version", "inputs"), [("1.1", INPUTS), (VERSION, {"model": "bb"}), (VERSION, {})]
)
def test_a_journal_of_other_work_is_not_used(
    run: RunDirectory, version: str, inputs: dict[str, str]
) -> None:
    killed(run, "a")
    with run.writing(STAGE, version, inputs) as folder:
        assert not (folder / JOURNAL).exists()
        (folder / "plan.json").write_text("")
    killed(run, "b")
    assert attempt(run, "c", fails=False) == ["b"]


def counted(step: int) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Wraps functions so that the call number `step` of all of them is a kill."""
    count = 0

    def wrap(function: Callable[..., object]) -> Callable[..., object]:
        def wrapper(*args: object, **kwargs: object) -> object:
            nonlocal count
            count += 1
            if count == step + 1:
                raise Killed
            return function(*args, **kwargs)

        return wrapper

    return wrap


@pytest.mark.parametrize("former", [True, False])
@pytest.mark.parametrize("step", range(14))
def test_a_kill_between_any_two_changes_on_disk_loses_no_result(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, step: int, former: bool
) -> None:
    if former:
        attempt(run, "f", fails=False, inputs={"old": "inputs"}, former="old")
    killed(run, "a")
    wrap = counted(step)
    with monkeypatch.context() as patch:
        for name in ("rename", "replace", "unlink", "mkdir"):
            patch.setattr(module.Path, name, wrap(getattr(Path, name)))
        patch.setattr(module.shutil, "rmtree", wrap(shutil.rmtree))
        with contextlib.suppress(Killed):
            attempt(run, "b", fails=False)
    after = RunDirectory(run.root)
    if after.is_current(STAGE, VERSION, INPUTS):
        assert not (after.folder(STAGE) / JOURNAL).exists()
    else:
        assert "a" in attempt(after, "c", fails=False)
        assert after.is_current(STAGE, VERSION, INPUTS)
    assert {p.name for p in run.root.iterdir()} == {STAGE}


def test_a_plan_may_be_edited_and_a_sweep_record_may_not(run: RunDirectory) -> None:
    with run.writing(STAGE, VERSION, INPUTS) as folder:
        (folder / "plan.json").write_text("made")
        (folder / "sweep.json").write_text("made")
    before = run.require(STAGE, "quantflow sweep").digest
    (run.folder(STAGE) / "plan.json").write_text("edited")
    assert run.is_current(STAGE, VERSION, INPUTS)
    assert run.require(STAGE, "quantflow sweep").digest == before
    (run.folder(STAGE) / "sweep.json").write_text("edited")
    assert not run.is_current(STAGE, VERSION, INPUTS)
    (run.folder(STAGE) / "sweep.json").write_text("made")
    (run.folder(STAGE) / "plan.json").unlink()
    with pytest.raises(QuantflowError, match="QF405"):
        run.require(STAGE, "quantflow sweep")


def test_a_plan_of_another_stage_may_not_be_edited(run: RunDirectory) -> None:
    with run.writing("40_onnx", VERSION, INPUTS) as folder:
        (folder / "plan.json").write_text("made")
    (run.folder("40_onnx") / "plan.json").write_text("edited")
    assert not run.is_current("40_onnx", VERSION, INPUTS)
    with pytest.raises(QuantflowError, match="QF405"):
        run.require("40_onnx", "quantflow export-onnx")


def test_edits_are_kept_beside_the_folder_when_the_stage_runs_anew(run: RunDirectory) -> None:
    with run.writing(STAGE, VERSION, INPUTS) as folder:
        (folder / "plan.json").write_text("found")
    assert run.keep_edits(STAGE) == []
    (run.folder(STAGE) / "plan.json").write_text("edited by hand")
    (copy,) = run.keep_edits(STAGE)
    with run.writing(STAGE, VERSION, {"model": "bb"}) as folder:
        (folder / "plan.json").write_text("found anew")
    assert copy.read_text() == "edited by hand"
    assert (run.folder(STAGE) / "plan.json").read_text() == "found anew"


def test_an_edit_is_kept_even_when_the_manifest_is_damaged(run: RunDirectory) -> None:
    with run.writing(STAGE, VERSION, INPUTS) as folder:
        (folder / "plan.json").write_text("found")
    (run.folder(STAGE) / "stage.json").write_text("{")
    assert [path.read_text() for path in run.keep_edits(STAGE)] == ["found"]
