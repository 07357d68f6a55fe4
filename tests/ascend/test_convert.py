"""A conversion counts only when exit code, success line and file agree; here and elsewhere."""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from quantflow.artifacts.om_record import OmRecord
from quantflow.ascend.convert import ATC_NOT_FOUND, convert, problems
from quantflow.ascend.error_hints import tells_an_error
from quantflow.ascend.om_file import read_om_header
from quantflow.ascend.run_atc import run_atc
from quantflow.errors import ExitCode, QuantflowError

from . import fake_atc
from .conftest import Configure, Export
from .fake_atc import process_is_gone, run_script

NAMES = ["batch1", "batch1_fp16", "batch8", "batch8_fp16"]

CASES = [
    ("good", True, ""),
    ("good-linux", True, ""),
    ("good-aarch64", True, ""),
    ("encrypted", True, ""),  # it does not tell its chip
    ("colours", True, ""),
    ("floods", True, ""),
    ("killed", False, "signal 9"),
    ("no-code", False, "libge.so"),
    ("names-a-node", False, "E20001"),
    ("no-chip-named", True, ""),
    ("success-but-exit-1", False, "exit code 1"),
    ("exit-0-but-silent", False, "never announced success"),
    ("no-file", False, "wrote no .om file"),
    ("truncated", False, "bytes"),
    ("empty", False, "header"),
    ("not-an-om", False, "start"),
    ("other-chip", False, "Ascend910B4"),
    ("refused", False, "E10001"),
]


def convert_with(mode: str, export: Export, configure: Configure, **atc: Any) -> OmRecord:
    executable = fake_atc.install(export.out.parent / "bin", mode)
    loaded = configure(executable=str(executable), **atc)
    return convert(loaded, export.record, export.directory, export.out)


@pytest.mark.parametrize(("mode", "good", "reason"), CASES)
def test_the_three_witnesses_must_agree(
    mode: str, good: bool, reason: str, export: Export, configure: Configure
) -> None:
    stale = export.out / "batch1.om"
    stale.write_bytes(fake_atc.om_bytes())  # of an earlier run; proves nothing about this one
    record = convert_with(mode, export, configure)
    assert [x.name for x in record.conversions] == NAMES
    assert record.status == ("converted" if good else "failed")
    for conversion in record.conversions:
        assert reason in conversion.reason
        assert (conversion.om is not None) == good
        if conversion.om is not None:
            read_om_header(export.out / conversion.om)
    assert bool(list(export.out.glob("*.om"))) == good
    assert [p.code for p in problems(record)] == ([] if good else ["QF701", "QF701"])


@pytest.mark.parametrize(("mode", "good", "reason"), CASES)
def test_the_hand_over_script_judges_alike(
    mode: str, good: bool, reason: str, export: Export, configure: Configure, tmp_path: Path
) -> None:
    convert(configure(), export.record, export.directory, export.out)
    elsewhere = Path(shutil.move(export.out, tmp_path / "elsewhere"))
    (elsewhere / "batch1.om").write_bytes(fake_atc.om_bytes())
    bin_dir = fake_atc.install(tmp_path / "bin", mode).parent
    done = run_script(elsewhere, bin_dir)
    assert done.returncode == (0 if good else 4), done.stdout
    result = json.loads((elsewhere / "result.json").read_text())
    assert result["exit_code"] == done.returncode
    assert [row["name"] for row in result["conversions"]] == NAMES
    for row in result["conversions"]:
        assert row["status"] == ("converted" if good else "failed")
        assert reason in row["reason"]
        assert row["status"] in done.stdout
    assert bool(list(elsewhere.glob("*.om"))) == good


def test_a_failure_quotes_atc_and_names_its_log(
    export: Export, configure: Configure, tmp_path: Path
) -> None:
    said = "'E10001: [PID: 1] Value [x] for parameter [--log] is invalid.'"
    for conversion in convert_with("refused", export, configure).conversions:
        assert f"atc said {said}" in conversion.reason.replace('"', "'")
        assert conversion.reason.endswith(f"log: 50_om/logs/{conversion.name}.log")
        assert (export.out / conversion.log).is_file()
    done = run_script(export.out, tmp_path / "bin")
    assert f"atc said {said}" in done.stdout
    assert "log: logs/batch1.log" in done.stdout


def test_the_first_line_that_tells_an_error_is_the_one_that_counts() -> None:
    assert tells_an_error("[ERROR] TBE(1): no kernel") and tells_an_error("EZ3002: [PID: 1] none")
    assert tells_an_error("atc: error while loading shared libraries: libge.so")
    assert not tells_an_error("ATC run failed, Please check the detail log, try 'atc --help'")
    assert not tells_an_error("0 errors; W11001: Op [Slice_29] misses")


def test_without_atc_nothing_is_claimed_and_the_folder_is_complete(
    export: Export, configure: Configure
) -> None:
    record = convert(configure(), export.record, export.directory, export.out)
    assert record.status == "not-converted"
    for conversion in record.conversions:
        assert (conversion.status, conversion.reason) == ("not-converted", ATC_NOT_FOUND)
        assert conversion.om is None
        named = {word.split("=", 1)[0]: word.split("=", 1)[-1] for word in conversion.command}
        kept = export.out / named["--keep_dtype"]
        assert kept.read_text() == "norm\n"  # the island of plan.json; Softmax keeps its name
        original = export.directory / named["--model"]
        assert (export.out / named["--model"]).read_bytes() == original.read_bytes()
        assert original.name.startswith("float" if conversion.kind == "fp16" else "deploy")
    assert str(export.out.parent) not in record.to_json()
    (problem,) = problems(record)
    assert problem.code == "QF602"
    assert QuantflowError([problem]).exit_code == ExitCode.ENVIRONMENT
    assert not list(export.out.glob("*.om"))


def test_the_script_without_atc_ends_with_3_and_claims_nothing(
    export: Export, configure: Configure
) -> None:
    convert(configure(), export.record, export.directory, export.out)
    done = run_script(export.out, None)
    assert done.returncode == 3
    assert "set_env.sh" in done.stdout
    rows = json.loads((export.out / "result.json").read_text())["conversions"]
    assert {row["status"] for row in rows} == {"not-converted"}


def test_atc_gets_exactly_the_recorded_arguments(export: Export, configure: Configure) -> None:
    record = convert_with("good", export, configure, options={"log": "info"})
    seen = json.loads((export.out / "seen_arguments.json").read_text())
    assert seen == list(record.conversions[-1].command[1:])
    plan = json.loads((export.out / "conversions.json").read_text())
    assert plan["conversions"][-1]["arguments"] == seen
    assert "--output=batch8_fp16" in seen and "--model=float_batch8.onnx" in seen
    seen = plan["conversions"][-2]["arguments"]
    assert sorted(seen) == sorted(
        [
            "--framework=5",
            "--model=deploy_batch8.onnx",
            "--output=batch8",
            "--soc_version=Ascend310P3",
            "--input_shape=x:8,4",
            "--keep_dtype=keep_dtype.txt",
            "--precision_mode=force_fp16",
            "--log=info",
        ]
    )


def test_the_script_converts_only_the_named_bucket(export: Export, configure: Configure) -> None:
    convert(configure(), export.record, export.directory, export.out)
    bin_dir = fake_atc.install(export.out.parent / "bin", "good").parent
    assert run_script(export.out, bin_dir, "batch8").returncode == 0
    found = sorted(path.name for path in export.out.glob("*.om"))
    assert found == ["batch8.om", "batch8_fp16.om"]
    assert run_script(export.out, bin_dir, "batch1_fp16").returncode == 0
    assert not (export.out / "batch1.om").exists() and (export.out / "batch1_fp16.om").exists()
    assert run_script(export.out, bin_dir, "batch9").returncode == 2


def test_the_hand_over_folder_is_the_same_bytes_every_time(
    export: Export, configure: Configure, tmp_path: Path
) -> None:
    other = tmp_path / "again"
    other.mkdir()
    for out in (export.out, other):
        convert(configure(), export.record, export.directory, out)
    files = sorted(p.relative_to(other) for p in other.rglob("*") if p.is_file())
    assert files == sorted(p.relative_to(export.out) for p in export.out.rglob("*") if p.is_file())
    assert all((other / f).read_bytes() == (export.out / f).read_bytes() for f in files)


def old_python() -> str | None:
    """A Python 3.7 to try the script with, if this machine has one."""
    known = sorted(Path.home().glob(".pyenv/versions/3.7.*/bin/python"))
    return str(known[0]) if known else shutil.which("python3.7")


def test_the_script_is_python_3_7(export: Export, configure: Configure) -> None:
    convert(configure(), export.record, export.directory, export.out)
    ast.parse((export.out / "convert.py").read_text(), feature_version=(3, 7))
    python = old_python()
    if python is not None:
        bin_dir = fake_atc.install(export.out.parent / "bin", "good").parent
        done = run_script(export.out, bin_dir, python=python)
        assert done.returncode == 0, done.stderr


def test_a_hanging_atc_is_ended_with_its_children(export: Export, configure: Configure) -> None:
    started = time.monotonic()
    record = convert_with("hangs", export, configure, timeout_s=1)
    assert time.monotonic() - started < 20
    assert record.status == "failed"
    assert "timeout_s" in record.conversions[0].reason
    assert process_is_gone(int((export.out / "child.pid").read_text()))
    assert not list(export.out.glob("*.om"))


def test_the_script_ends_a_hanging_atc_too(export: Export, configure: Configure) -> None:
    convert(configure(timeout_s=1), export.record, export.directory, export.out)
    bin_dir = fake_atc.install(export.out.parent / "bin", "hangs").parent
    done = run_script(export.out, bin_dir, "batch1")
    assert done.returncode == 4
    assert "longer than 1 s" in done.stdout
    assert process_is_gone(int((export.out / "child.pid").read_text()))


def test_a_child_that_keeps_the_pipe_open_does_not_hold_up_the_answer(
    export: Export, configure: Configure
) -> None:
    started = time.monotonic()
    record = convert_with("leaves-a-child", export, configure)
    assert time.monotonic() - started < 20
    assert record.status == "converted"
    assert process_is_gone(int((export.out / "child.pid").read_text()))


@pytest.mark.parametrize("parallel", [1, 3])
def test_ctrl_c_ends_atc_and_leaves_no_half_file(
    parallel: int, export: Export, configure: Configure
) -> None:
    executable = fake_atc.install(export.out.parent / "bin", "hangs")
    children = export.out / "children.txt"

    def interrupt() -> None:
        while not (children.exists() and len(children.read_text().split()) == parallel):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    loaded = configure(executable=str(executable), timeout_s=30, parallel=parallel)
    # A shell starts what it runs in the background with Ctrl-C ignored, these tests too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            convert(loaded, export.record, export.directory, export.out)
    finally:
        signal.signal(signal.SIGINT, before)
    assert all(process_is_gone(int(pid)) for pid in children.read_text().split())
    assert len((export.out / "seen_outputs.txt").read_text().split()) == parallel
    assert not list(export.out.glob("*.om*"))


def test_output_is_streamed_and_logged(export: Export, tmp_path: Path) -> None:
    executable = fake_atc.install(tmp_path / "bin", "refused")
    seen: list[str] = []
    outcome = run_atc(
        str(executable),
        ["--output=net"],
        cwd=tmp_path,
        timeout_s=30,
        log_path=tmp_path / "logs" / "net.log",
        on_line=seen.append,
    )
    assert (outcome.exit_code, outcome.success_line, outcome.timed_out) == (255, False, False)
    assert outcome.error_codes == ("E10001",)
    assert outcome.error_lines == tuple(seen[1:])
    assert (tmp_path / "logs" / "net.log").read_text().splitlines() == seen


def test_a_program_that_does_not_start_is_a_failed_conversion(
    export: Export, configure: Configure
) -> None:
    executable = fake_atc.install(export.out.parent / "bin", "good")
    executable.write_bytes(b"\x7fELF nonsense")
    loaded = configure(executable=str(executable))
    record = convert(loaded, export.record, export.directory, export.out)
    assert "could not be started" in record.conversions[0].reason


def test_an_error_of_preflight_keeps_atc_from_starting(
    export: Export, configure: Configure
) -> None:
    record = convert_with("good", export, configure, options={"auto_tune_mode": "RL"})
    assert record.status == "refused"
    assert {(p.code, QuantflowError([p]).exit_code) for p in problems(record)} == {("QF111", 2)}
    assert "E10001" in record.conversions[0].reason
    assert not (export.out / "seen_arguments.json").exists()


def test_option_files_and_external_weights_travel(
    export: Export, configure: Configure, tmp_path: Path
) -> None:
    model = onnx.load(export.directory / "deploy_batch1.onnx")
    onnx.save(
        model,
        export.directory / "deploy_batch1.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    (tmp_path / "my switches.cfg").write_text("{}")
    loaded = configure(options={"fusion_switch_file": "my switches.cfg"})
    record = convert(loaded, export.record, export.directory, export.out)
    assert [finding for finding in record.findings if finding.level == "error"] == []
    word = next(w for w in record.conversions[0].command if w.startswith("--fusion_switch_file"))
    assert (export.out / word.split("=", 1)[1]).read_text() == "{}"
    moved = onnx.load(export.out / "deploy_batch1.onnx")
    weight = next(tensor for tensor in moved.graph.initializer if tensor.name == "w")
    expected = np.arange(1, 13, dtype=np.int8).reshape(4, 3)
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(weight), expected)


def test_a_file_that_is_too_large_for_an_option_does_not_travel(
    export: Export, configure: Configure, tmp_path: Path
) -> None:
    with (tmp_path / "large.cfg").open("wb") as file:
        file.truncate((16 << 20) + 1)
    loaded = configure(options={"fusion_switch_file": "large.cfg"}, executable="no-such-atc")
    record = convert(loaded, export.record, export.directory, export.out)
    assert record.status == "refused" and "16 MB" in record.conversions[0].reason
    assert not (export.out / "options").exists()


@pytest.mark.parametrize("name", ["../up", "/etc/x", ""])
def test_a_record_that_points_outside_its_folder_is_refused(
    name: str, export: Export, configure: Configure
) -> None:
    bucket = export.record.buckets[0].model_copy(update={"deploy": name})
    record = export.record.model_copy(update={"buckets": (bucket,)})
    with pytest.raises(QuantflowError) as error:
        convert(configure(), record, export.directory, export.out)
    assert error.value.problems[0].code == "QF402"


def test_a_missing_deploy_file_is_refused_by_name(export: Export, configure: Configure) -> None:
    (export.directory / "deploy_batch8.onnx").unlink()
    with pytest.raises(QuantflowError, match="deploy_batch8"):
        convert(configure(), export.record, export.directory, export.out)
