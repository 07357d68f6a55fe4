"""The run directory: current or not, damage, staleness, interruptions, two processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from quantflow.artifacts import run_directory as module
from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.digest import file_digest, path_digest, value_digest
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.errors import QuantflowError

STAGE, VERSION = "20_ranges", "1.0"
INPUTS = {"model": "aa", "set": "bb"}


def write_stage(run: RunDirectory, text: str = "x", inputs: dict[str, str] = INPUTS) -> None:
    with run.writing(STAGE, VERSION, inputs) as folder:
        (folder / "sub").mkdir()
        (folder / "a.json").write_text(text)
        (folder / "sub" / "b.bin").write_bytes(b"\0" * 10)


def code(run: RunDirectory) -> str:
    with pytest.raises(QuantflowError) as caught:
        run.require(STAGE, "quantflow calibrate")
    return caught.value.problems[0].code


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


# --- current, stale, damaged -------------------------------------------------------------------


def test_a_stage_that_never_ran_is_not_current(run: RunDirectory) -> None:
    assert run.manifest(STAGE) is None and not run.is_current(STAGE, VERSION, INPUTS)
    with pytest.raises(QuantflowError) as caught:
        run.require(STAGE, "quantflow calibrate")
    (problem,) = caught.value.problems
    assert problem.code == "QF404" and "quantflow calibrate" in problem.fix


def test_a_finished_stage_is_current_for_the_same_version_and_inputs_only(
    run: RunDirectory,
) -> None:
    write_stage(run)
    assert run.is_current(STAGE, VERSION, INPUTS)
    assert run.is_current(STAGE, VERSION, dict(reversed(INPUTS.items())))
    assert not run.is_current(STAGE, "1.1", INPUTS)
    assert not run.is_current(STAGE, VERSION, {**INPUTS, "set": "cc"})
    assert not run.is_current(STAGE, VERSION, {"model": "aa"})
    assert not run.is_current(STAGE, VERSION, {**INPUTS, "more": "dd"})


def test_the_manifest_names_every_file_by_its_digest(run: RunDirectory) -> None:
    write_stage(run)
    folder = run.folder(STAGE)
    outputs = run.require(STAGE, "").outputs
    assert outputs == {name: file_digest(folder / name) for name in ("a.json", "sub/b.bin")}


@pytest.mark.parametrize("damage", ["changed", "removed", "longer", "folder"])
def test_a_file_that_is_not_what_was_written_is_noticed(run: RunDirectory, damage: str) -> None:
    write_stage(run)
    path = run.folder(STAGE) / "sub" / "b.bin"
    path.unlink()
    if damage == "changed":
        path.write_bytes(b"\0" * 9 + b"\1")
    if damage == "longer":
        path.write_bytes(b"\0" * 11)
    if damage == "folder":
        path.mkdir()
    assert not run.is_current(STAGE, VERSION, INPUTS)
    assert code(run) == "QF405"


@pytest.mark.parametrize("name", ["file", "file/below", "n" * 300, "nul\0"])
def test_a_place_that_can_be_no_directory_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(QuantflowError) as caught, RunDirectory(tmp_path / name).locked():
        pass
    assert caught.value.problems[0].code == "QF604"
    assert name in caught.value.problems[0].where


@pytest.mark.parametrize("text", ["", "{", "{}", '{"stage": "x", "version": 1}'])
def test_a_damaged_manifest_makes_the_stage_run_again(run: RunDirectory, text: str) -> None:
    write_stage(run)
    (run.folder(STAGE) / "stage.json").write_text(text)
    assert not run.is_current(STAGE, VERSION, INPUTS)
    assert code(run) == "QF402"
    write_stage(run)
    assert run.is_current(STAGE, VERSION, INPUTS)


def test_the_digest_of_a_stage_changes_with_its_outputs_only(run: RunDirectory) -> None:
    write_stage(run)
    first = run.require(STAGE, "").digest
    write_stage(run, inputs={"other": "inputs"})
    assert run.require(STAGE, "").digest == first
    write_stage(run, text="y")
    assert run.require(STAGE, "").digest != first


def test_a_stage_is_replaced_as_a_whole(run: RunDirectory) -> None:
    write_stage(run)
    with run.writing(STAGE, VERSION, INPUTS) as folder:
        (folder / "c").write_text("only this")
    assert {p.name for p in run.folder(STAGE).iterdir()} == {"c", "stage.json"}
    assert {p.name for p in run.root.iterdir()} == {STAGE}


def test_a_discarded_stage_is_gone_with_what_an_attempt_at_it_left(run: RunDirectory) -> None:
    assert not run.discard(STAGE)
    write_stage(run)
    (run.root / f"{STAGE}.partial").mkdir()
    assert run.discard(STAGE) and not run.discard(STAGE)
    assert list(run.root.iterdir()) == [] and run.manifest(STAGE) is None


# --- interruptions -----------------------------------------------------------------------------


def test_an_exception_leaves_the_former_result_in_force(run: RunDirectory) -> None:
    write_stage(run, "old")

    def interrupted() -> None:
        with run.writing(STAGE, VERSION, {"new": "inputs"}) as folder:
            (folder / "a.json").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert run.is_current(STAGE, VERSION, INPUTS)
    assert (run.folder(STAGE) / "a.json").read_text() == "old"


def test_what_an_interrupted_run_left_is_cleared(run: RunDirectory) -> None:
    partial = run.root / f"{STAGE}.partial"
    (partial / "sub").mkdir(parents=True)
    (partial / "rest").write_text("of an interrupted run")
    assert run.manifest(STAGE) is None
    write_stage(run)
    assert not (run.folder(STAGE) / "rest").exists() and not partial.exists()


class Killed(BaseException):
    """Stands for kill -9: nothing runs after it."""


@pytest.mark.parametrize("step", range(6))
@pytest.mark.parametrize("former", [True, False])
def test_a_kill_at_any_step_of_the_replacement_leaves_the_old_or_the_new_result(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, step: int, former: bool
) -> None:
    if former:
        write_stage(run, "old", {"old": "inputs"})
    count = 0

    def counted(function):
        def wrapper(*args: object, **kwargs: object) -> object:
            nonlocal count
            if count == step:
                raise Killed
            count += 1
            return function(*args, **kwargs)

        return wrapper

    with monkeypatch.context() as patch:
        patch.setattr(module.Path, "rename", counted(Path.rename))
        patch.setattr(module.shutil, "rmtree", counted(shutil.rmtree))
        patch.setattr(module.Path, "replace", counted(Path.replace))
        try:
            write_stage(run, "new")
        except Killed:
            killed = True
        else:
            killed = False
    after = RunDirectory(run.root)
    old = after.is_current(STAGE, VERSION, {"old": "inputs"})
    new = after.is_current(STAGE, VERSION, INPUTS)
    assert new or (killed and (old or not former))
    # Whatever was left behind, the next run is clean.
    write_stage(after, "newer")
    assert (after.folder(STAGE) / "a.json").read_text() == "newer"
    assert {p.name for p in run.root.iterdir()} == {STAGE}


def test_a_kill_while_the_former_folder_is_removed_does_no_harm(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_stage(run, "old", {"old": "inputs"})
    real = shutil.rmtree

    def half(path: Path, **kwargs: object) -> None:
        if (path / "a.json").exists():
            (path / "a.json").unlink()
            raise Killed
        real(path, **kwargs)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(module.shutil, "rmtree", half)
        with pytest.raises(Killed):
            write_stage(run, "new")
    after = RunDirectory(run.root)
    assert after.is_current(STAGE, VERSION, INPUTS)
    assert (after.folder(STAGE) / "a.json").read_text() == "new"


# --- two processes -----------------------------------------------------------------------------


def test_a_second_process_is_refused_until_the_first_is_done(run: RunDirectory) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from quantflow.artifacts.run_directory import RunDirectory\n"
        "from quantflow.errors import QuantflowError\n"
        "try:\n"
        "    with RunDirectory(Path(sys.argv[1])).locked(): print('free')\n"
        "except QuantflowError as error: print(error.problems[0].code)\n"
    )

    def other() -> str:
        command = [sys.executable, "-c", script, str(run.root)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    with run.locked():
        assert other() == "QF406"
    assert other() == "free"


def test_halves_of_files_that_a_kill_left_are_removed(run: RunDirectory) -> None:
    run.root.mkdir()
    (run.root / ".summary.json.ab12_cd3").write_text("{")
    (run.root / ".hers.json.ab12_cd3").write_text("{}")
    with run.locked():
        assert {path.name for path in run.root.iterdir()} == {".lock", ".hers.json.ab12_cd3"}


# --- times -------------------------------------------------------------------------------------


DEEP = '{"a": ' * 900 + "1" + "}" * 900


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "[]",
        "\udcff",
        '{"00_model": {"seconds": 1}}',
        "[" * 10**5,
        DEEP,
        f'{{"a": {DEEP}}}',
    ],
)
def test_times_survive_a_damaged_file(run: RunDirectory, text: str | None) -> None:
    path = run.root / "timings.json"
    if text is not None:
        run.root.mkdir()
        path.write_bytes(text.encode(errors="surrogateescape"))
    run.record_time(STAGE, 1.23456)
    times = json.loads(path.read_text())
    assert times[STAGE]["seconds"] == 1.235
    assert ("00_model" in times) == (text is not None and "00_model" in text)


# --- atomic files and digests ------------------------------------------------------------------


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sub" / "f"
    write_atomically(path, b"old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old" and list(path.parent.iterdir()) == [path]


def test_a_written_file_can_be_read_by_others(tmp_path: Path) -> None:
    write_atomically(tmp_path / "f", b"x")
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o644


def test_digests_are_sha256_of_content(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2
    assert file_digest(tmp_path / "f") == known == path_digest(tmp_path / "f")


def test_the_digest_of_a_value_ignores_the_order_of_keys_and_nothing_else() -> None:
    assert value_digest({"a": 1, "b": [1, 2]}) == value_digest({"b": [1, 2], "a": 1})
    values = [{"a": 1}, {"a": "1"}, {"a": None}, {"a": [1]}, ["a", 1], {"a": 1, "b": 1}, "a"]
    assert len({value_digest(value) for value in values}) == len(values)


def test_the_digest_of_a_folder_covers_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "x").write_text("1")
    first = path_digest(tmp_path / "d")
    (tmp_path / "d" / "e" / "y").write_text("1")
    second = path_digest(tmp_path / "d")
    (tmp_path / "d" / "e" / "y").rename(tmp_path / "d" / "e" / "z")
    third = path_digest(tmp_path / "d")
    assert len({first, second, third}) == 3
