"""convert.py ends in a line and an exit code, whatever lies in its folder."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quantflow.ascend.convert import convert
from quantflow.ascend.handover_plan import Unusable, read_plan

from . import fake_atc
from .conftest import Configure, Export
from .fake_atc import run_script


@pytest.fixture
def folder(export: Export, configure: Configure, tmp_path: Path) -> Path:
    convert(configure(), export.record, export.directory, export.out)
    return export.out


@pytest.fixture
def atc(tmp_path: Path) -> Callable[[str], Path]:
    return lambda mode: fake_atc.install(tmp_path / "bin", mode).parent


def edit(**changes: Any) -> Callable[[Path], None]:
    def work(folder: Path) -> None:
        path = folder / "conversions.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return work


def edit_first(**changes: Any) -> Callable[[Path], None]:
    def work(folder: Path) -> None:
        plan = json.loads((folder / "conversions.json").read_text())
        plan["conversions"][0] |= changes
        edit(conversions=plan["conversions"])(folder)

    return work


def put(name: str, content: bytes) -> Callable[[Path], None]:
    def work(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return work


def make_pipe(folder: Path) -> None:
    (folder / "conversions.json").unlink()
    os.mkfifo(folder / "conversions.json")


DAMAGES: list[tuple[Callable[[Path], None], str]] = [
    (lambda folder: (folder / "conversions.json").unlink(), "No such file"),
    (make_pipe, "no file"),
    (put("conversions.json", b'{"format": 1'), "damaged"),
    (put("conversions.json", b"[" * 100_000), "damaged"),
    (put("conversions.json", b"\xff\xfe"), "damaged"),
    (put("conversions.json", b"[]"), "format"),
    (edit(conversions=[]), "no conversions"),
    (edit(timeout_s=True), "timeout_s"),
    (edit(timeout_s=-1), "timeout_s"),
    (edit(layers={"a": 1}), "layers"),
    (edit(atc=None), "atc"),
    (edit_first(name="../escape"), "damaged"),
    (edit_first(name="batch8"), "twice"),
    (edit_first(arguments=[1]), "damaged"),
    (edit_first(files={"a\x1b[31m": "0"}), "a\\x1b[31m"),
    (lambda folder: (folder / "result.json").mkdir(), "result.json"),
    (lambda folder: (folder / ".convert.lock").mkdir(), ".convert.lock"),
]


@pytest.mark.parametrize(("damage", "said"), DAMAGES)
def test_what_cannot_be_used_is_one_line_and_exit_code_2(
    damage: Callable[[Path], None], said: str, folder: Path, atc: Callable[[str], Path]
) -> None:
    damage(folder)
    done = run_script(folder, atc("good"))
    assert done.returncode == 2 and done.stderr == ""
    (line,) = done.stdout.splitlines()
    assert said in line
    assert not (folder / "seen_outputs.txt").exists()


def test_a_disk_that_takes_nothing_is_one_line(folder: Path, atc: Callable[[str], Path]) -> None:
    done = subprocess.run(
        [sys.executable, folder / "convert.py"],
        env={"PATH": str(atc("good"))},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )
    assert done.returncode == 2 and done.stderr == "" and "File too large" in done.stdout
    assert len(done.stdout.splitlines()) == 1
    assert not (folder / "seen_outputs.txt").exists()
    assert not list(folder.glob(".result.json*"))


def test_two_at_once_do_not_share_a_folder(folder: Path, atc: Callable[[str], Path]) -> None:
    with (folder / ".convert.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = run_script(folder, atc("good"))
    assert done.returncode == 2 and "another convert.py" in done.stdout
    assert run_script(folder, atc("good")).returncode == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
KEYS = ["format", "atc", "soc_version", "timeout_s", "conversions", "layers", "suffixes"]
ENTRY_KEYS = ["name", "bucket", "kind", "arguments", "files", "digest"]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.sampled_from([*KEYS, *ENTRY_KEYS]), value=JSON)
def test_a_plan_is_read_or_refused(key: str, value: Any, folder: Path, tmp_path: Path) -> None:
    plan = json.loads((folder / "conversions.json").read_text())
    (plan if key in KEYS else plan["conversions"][0])[key] = value
    other = tmp_path / "other"
    other.mkdir(exist_ok=True)
    (other / "conversions.json").write_text(json.dumps(plan))
    try:
        found = read_plan(other)
    except Unusable:
        return
    assert found["timeout_s"] > 0 and isinstance(found["atc"], str) and found["conversions"]
    for entry in found["conversions"]:
        assert Path(entry["name"]).name == entry["name"]
        assert all(isinstance(word, str) for word in entry["arguments"])


def write_rows(folder: Path, **fields: Any) -> None:
    plan = json.loads((folder / "conversions.json").read_text())
    row = {"name": "batch1", "digest": plan["conversions"][0]["digest"], **fields}
    (folder / "result.json").write_text(json.dumps({"format": 1, "conversions": [row]}))


@pytest.mark.parametrize(
    "fields",
    [
        {"status": None, "reason": None, "om": 5},
        {"status": "converted", "om": "batch1.om", "size": 3, "sha256": "0" * 64, "reason": ""},
        {"status": "converted", "om": "batch1.om", "size": True, "sha256": None},
        {"status": "failed", "reason": "\x1b[31mE20001", "kind": "probe", "command": 7},
    ],
)
def test_an_earlier_result_is_shown_only_as_far_as_it_holds(
    fields: dict[str, Any], folder: Path, atc: Callable[[str], Path]
) -> None:
    write_rows(folder, **fields)
    done = run_script(folder, atc("good"), "batch8")
    assert done.returncode == 0 and done.stderr == ""
    first = json.loads((folder / "result.json").read_text())["conversions"][0]
    assert first["status"] == ("failed" if fields["status"] == "failed" else "not-converted")
    assert first["kind"] == "int8" and first["command"][1:]
    assert "batch1: converted" not in done.stdout and "\x1b" not in done.stdout


def test_a_file_that_is_a_link_is_converted_again(
    folder: Path, atc: Callable[[str], Path], tmp_path: Path
) -> None:
    assert run_script(folder, atc("good"), "batch1").returncode == 0
    shutil.move(folder / "batch1.om", tmp_path / "moved.om")
    (folder / "batch1.om").symlink_to(tmp_path / "moved.om")
    assert run_script(folder, atc("good"), "batch1").returncode == 0
    assert not (folder / "batch1.om").is_symlink()


def test_each_reason_is_printed_once(folder: Path, atc: Callable[[str], Path]) -> None:
    done = run_script(folder, atc("refused"))
    lines = done.stdout.splitlines()
    assert done.stdout.count("for parameter [--log] is invalid") == 1
    assert "batch8: failed: as batch1; log: logs/batch8.log" in lines
    assert lines[-1] == (
        "0 of 4 converted; first problem: batch1: atc ended with exit code 255, without success"
    )
    done = run_script(folder, atc("good"))
    assert done.stdout.splitlines()[-1] == "4 of 4 converted"
    done = run_script(folder, None, "batch1", "--force")
    assert "batch1, batch1_fp16: not-converted: atc not found" in done.stdout


def test_help_tells_what_ends_with_2(folder: Path) -> None:
    done = run_script(folder, None, "--help")
    assert "nothing can be read from or written to it" in done.stdout
