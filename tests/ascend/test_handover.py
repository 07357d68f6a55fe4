"""The hand-over folder works by itself, wherever it is copied to, and goes on where it stopped."""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quantflow.artifacts.om_record import OmResult
from quantflow.ascend.convert import convert
from quantflow.ascend.handover import PARTS
from quantflow.ascend.judge_om import om_file_problem
from quantflow.ascend.om_check import om_problem

from . import fake_atc
from .conftest import Configure, Export
from .fake_atc import run_script


@pytest.fixture
def folder(export: Export, configure: Configure, tmp_path: Path) -> Path:
    """The folder as it is copied to another machine."""
    convert(configure(), export.record, export.directory, export.out, model=None)
    return Path(shutil.copytree(export.out, tmp_path / "another machine"))


@pytest.fixture
def atc(tmp_path: Path) -> Callable[[str], Path]:
    """The only directory on PATH, with atc in it."""
    return lambda mode: fake_atc.install(tmp_path / "bin", mode).parent


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    tree = json.loads((folder / "result.json").read_text())
    return {row["name"]: row for row in tree["conversions"]}


def converted(folder: Path) -> list[str]:
    """What the stand-in was started for, in order of time."""
    path = folder / "seen_outputs.txt"
    return path.read_text().split() if path.exists() else []


def test_it_needs_nothing_but_python_and_atc(folder: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "python3").symlink_to(sys.executable)
    fake_atc.install(bare, "good")
    done = subprocess.run(
        [shutil.which("env") or "env", "-i", f"PATH={bare}", "python3", folder / "convert.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(folder.glob("*.om"))) == 4
    assert not list(folder.rglob("__pycache__"))
    assert not (tmp_path / "logs").exists()


def test_every_part_is_python_3_7() -> None:
    package = Path(om_problem.__code__.co_filename).parent
    for name in (*PARTS, "handover_script.py"):
        tree = ast.parse((package / name).read_text(), feature_version=(3, 7))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                assert node.module and not node.module.startswith("quantflow")


def test_the_result_is_of_the_record_s_format(folder: Path, atc: Callable[[str], Path]) -> None:
    assert run_script(folder, atc("version")).returncode == 0
    result = OmResult.model_validate_json((folder / "result.json").read_bytes())
    plan = json.loads((folder / "conversions.json").read_text())
    assert [x.digest for x in result.conversions] == [x["digest"] for x in plan["conversions"]]
    first = result.conversions[0]
    assert (first.status, first.om, first.log) == ("converted", "batch1.om", "logs/batch1.log")
    assert first.size == (folder / "batch1.om").stat().st_size
    assert first.atc_version == "[INFO] ATC tool version : 7.7.7"
    where = first.elsewhere
    assert where is not None and where.machine == os.uname().machine
    assert where.started <= where.finished <= time.strftime("%FT%TZ", time.gmtime())


def test_what_is_done_is_not_done_again(folder: Path, atc: Callable[[str], Path]) -> None:
    assert run_script(folder, atc("one-fails")).returncode == 4
    assert converted(folder) == ["batch1", "batch1_fp16", "batch8", "batch8_fp16"]
    assert run_script(folder, atc("good")).returncode == 0
    assert converted(folder)[4:] == ["batch1"]
    assert run_script(folder, None).returncode == 0  # nothing is left that would take atc
    with (folder / "batch8.om").open("r+b") as file:  # damaged: it is done again
        file.seek(300)
        file.write(b"\x55")
    assert run_script(folder, atc("good")).returncode == 0
    assert converted(folder)[5:] == ["batch8"]
    assert run_script(folder, atc("good"), "--force", "batch8").returncode == 0
    assert converted(folder)[6:] == ["batch8", "batch8_fp16"]


def test_other_arguments_are_another_conversion(
    export: Export, configure: Configure, folder: Path, atc: Callable[[str], Path]
) -> None:
    assert run_script(folder, atc("good"), "batch1").returncode == 0
    convert(configure(options={"log": "info"}), export.record, export.directory, export.out)
    shutil.copy(export.out / "conversions.json", folder)
    assert run_script(folder, atc("good"), "batch1").returncode == 0
    assert converted(folder) == ["batch1", "batch1_fp16"] * 2


@pytest.mark.parametrize("name", ["deploy_batch1.onnx", "float_batch1.onnx", "keep_dtype.txt"])
@pytest.mark.parametrize("way", ["changed", "missing"])
def test_files_that_are_not_those_of_the_plan_are_refused(
    name: str, way: str, folder: Path, atc: Callable[[str], Path]
) -> None:
    if way == "changed":
        with (folder / name).open("ab") as file:
            file.write(b"\x00")
    else:
        (folder / name).unlink()
    done = run_script(folder, atc("good"), "batch1")
    assert done.returncode == 2 and name in done.stdout
    assert converted(folder) == [] and not (folder / "result.json").exists()


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"format": 1, "conversions": [1]}', "\xff"])
def test_a_damaged_result_is_no_result(text: str, folder: Path, atc: Callable[[str], Path]) -> None:
    (folder / "result.json").write_bytes(text.encode("latin-1"))
    assert run_script(folder, atc("good"), "batch1").returncode == 0
    assert rows(folder)["batch8"]["status"] == "not-converted"


def test_an_fp16_model_that_fails_does_not_count(folder: Path, atc: Callable[[str], Path]) -> None:
    done = run_script(folder, atc("fp16-fails"))
    assert done.returncode == 0 and "E10001" in done.stdout
    assert rows(folder)["batch8_fp16"]["status"] == "failed"
    assert run_script(folder, atc("refused"), "batch8_fp16").returncode == 4  # asked for by name


def test_several_are_converted_at_once(folder: Path, atc: Callable[[str], Path]) -> None:
    done = run_script(folder, atc("meets"), "--parallel", "4", MEET="4")
    assert done.returncode == 0, done.stdout
    assert "met 4" in (folder / "logs" / "batch1.log").read_text()
    assert run_script(folder, atc("good"), "--parallel", "17").returncode == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_all_and_keeps_what_is_done(
    number: signal.Signals, folder: Path, atc: Callable[[str], Path]
) -> None:
    assert run_script(folder, atc("good"), "batch1").returncode == 0
    process = subprocess.Popen(
        [sys.executable, str(folder / "convert.py"), "--parallel", "2"],
        env={"PATH": str(atc("hangs"))},
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    children = folder / "children.txt"
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if children.exists() and len(children.read_text().split()) == 2:
            break
        time.sleep(0.05)
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130 and "interrupted" in out
    for pid in children.read_text().split():
        assert fake_atc.process_is_gone(int(pid))
    assert sorted(x.name for x in folder.glob("*.om")) == ["batch1.om", "batch1_fp16.om"]
    assert rows(folder)["batch1"]["status"] == "converted"
    assert rows(folder)["batch8"]["status"] == "not-converted"
    assert run_script(folder, atc("good")).returncode == 0


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    whole=st.sampled_from(
        [
            fake_atc.om_bytes(),
            fake_atc.om_bytes("Ascend910B4"),
            fake_atc.om_bytes(None),
            fake_atc.om_bytes(legacy=True),
            fake_atc.om_bytes("Ascend910B4", legacy=True),
            fake_atc.om_bytes("Ascend910B4", encrypted=True),
        ]
    ),
    flips=st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=3),
    cut=st.integers(0, 600),
    keep=st.booleans(),
)
def test_the_folder_s_check_is_as_strict_as_the_package_s(
    whole: bytes, flips: list[tuple[int, int]], cut: int, keep: bool, tmp_path: Path
) -> None:
    data = bytearray(whole if keep else whole[:cut])
    for place, value in flips:
        if place < len(data):
            data[place] = value
    path = tmp_path / "x.om"
    path.write_bytes(data)
    ours, theirs = om_problem(path, "Ascend310P3"), om_file_problem(path, "Ascend310P3")
    # A chip may still be found where the full reader gives up on a damaged table.
    assert ours or not theirs, theirs
    if not flips:
        assert bool(ours) == bool(theirs), (ours, theirs)
