from pathlib import Path

import numpy as np
import pytest

from quantflow.artifacts.sample_set import SampleInfo, SetRecord, write_set
from quantflow.cli import checks_environment as environment
from quantflow.cli import integer_probe
from quantflow.cli.check import Check
from quantflow.cli.checks_project import sample_checks
from quantflow.cli.doctor import exit_status
from quantflow.config import RuntimeConfig
from tests.cli.conftest import Call
from tests.cli.tiny_project import write_project
from tests.report.sample_run import write_run


def test_the_exact_sum_is_beyond_what_16_bits_hold() -> None:
    a, b = np.full(64, 255, np.int64), np.full(64, 127, np.int64)
    assert integer_probe.EXACT == int(a @ b) == 2_072_640
    assert int(np.minimum((a * b).reshape(-1, 2).sum(1), 2**15 - 1).sum()) == 1_048_544


def test_the_probe_is_exact_on_this_machine() -> None:
    assert environment.arithmetic_check().level == "ok"


def test_saturated_arithmetic_is_an_error_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(integer_probe, "probe", lambda: 1_048_544)
    check = environment.arithmetic_check()
    assert check.level == "error" and "1,048,544" in check.value
    assert exit_status([check]) == 3


@pytest.mark.parametrize(
    ("requirement", "level"),
    [
        ("numpy>=2", "ok"),
        ("numpy<1", "error"),
        ("surely-not-installed>=1", "error"),
        ('surely-not-installed; extra == "npu"', None),
    ],
)
def test_versions_are_held_against_what_is_required(requirement: str, level: str | None) -> None:
    levels = [check.level for check in environment.package_checks([requirement])]
    assert levels == ([level] if level else [])


def test_a_provider_that_is_missing_is_an_error() -> None:
    assert environment.provider_check(RuntimeConfig()).level == "ok"
    assert environment.provider_check(RuntimeConfig(provider="cann")).level == "error"


def test_torch_npu_without_cann_is_one_clear_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "version", lambda name: "2.13.0")
    monkeypatch.delenv("ASCEND_TOOLKIT_HOME", raising=False)
    check = environment.torch_check()
    assert check.level == "warn" and "CANN" in check.value
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in check.fix


def test_little_disk_is_a_warning(tmp_path: Path) -> None:
    assert environment.disk_check(tmp_path / "not" / "yet", least=1).level == "ok"
    assert environment.disk_check(tmp_path, least=2**62).level == "warn"


def test_a_broken_environment_wins_over_a_broken_configuration() -> None:
    broken = [Check("configuration", "a", "error", ""), Check("environment", "b", "error", "")]
    assert exit_status(broken) == 3
    assert exit_status(broken[:1]) == 2
    assert exit_status([Check("environment", "atc", "warn", "")]) == 0


def test_a_missing_atc_is_no_failure(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = call("doctor", "-c", write_project(tmp_path))
    assert answer.code == 0
    assert "[warn] atc: not found" in answer.out
    assert "[ok]   configuration" in answer.out
    tree = call("doctor", "-c", tmp_path / "quantflow.toml", "--json").json
    assert tree["exit_code"] == 0
    assert {"name": "atc", "level": "warn"}.items() <= next(
        check for check in tree["checks"] if check["name"] == "atc"
    ).items()


def test_what_atc_lacks_and_another_chip_are_warnings(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = {
        "atc": "exit 1",
        "python3": "echo asked sympy google.protobuf",
        "npu-smi": "echo '| 0       910B4        | OK   |'",
    }
    for name, script in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ASCEND_OPP_PATH", str(tmp_path / "gone"))
    answer = call("doctor", "-c", write_project(tmp_path), "--json")
    found = {x["value"]: x["fix"] for x in answer.json["checks"] if x["name"] == "CANN"}
    assert answer.code == 0
    texts = "\n".join(found)
    for word in ("sympy, protobuf", "ASCEND_OPP_PATH", "ASCEND_TOOLKIT_HOME", "Ascend910B4"):
        assert word in texts
    assert f"{tmp_path}/python3 -m pip install sympy protobuf" in found.values()


def test_every_problem_of_the_configuration_is_a_line(call: Call, tmp_path: Path) -> None:
    config = write_project(tmp_path)
    (tmp_path / "candidates.npz").unlink()
    answer = call("doctor", "-c", config)
    assert answer.code == 2 and "[x]    configuration: QF104" in answer.out
    answer = call("doctor", "-c", config, "--set", "target.chpi=1", "--set", "run.seed=-1")
    assert "QF102" in answer.out and "QF103" in answer.out


def test_an_unknown_chip_and_a_missing_module_are_found(call: Call, tmp_path: Path) -> None:
    config = write_project(tmp_path)
    for change, code in (
        ("target.chip=Ascend31O", "QF110"),
        ("set.preprocess.function=nowhere:f", "QF105"),
    ):
        answer = call("doctor", "-c", config, "--set", change)
        assert answer.code == 2 and code in answer.out


@pytest.mark.parametrize(("width", "level"), [(4, "ok"), (5, "error")])
def test_samples_are_held_against_the_model_s_inputs(
    tmp_path: Path, width: int, level: str
) -> None:
    run = write_run(tmp_path)
    record = SetRecord(
        name="heldout",
        source="",
        inputs={"x": "float32"},
        samples=(SampleInfo(id="heldout[0]", digest="0"),),
        padding_fraction=None,
        duplicates=0,
    )
    for name in ("calibration", "evaluation"):
        (run.folder("10_set") / name / "set.json").unlink()
    write_set(run.folder("10_set") / "heldout", record, [{"x": np.ones(width, np.float32)}])
    assert [check.level for check in sample_checks(run)] == [level]


def test_what_runs_om_files_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    check = environment.om_check()
    assert check.level == "ok" and "cannot be run on this machine" in check.value
    (tmp_path / "ais_bench").mkdir()
    (tmp_path / "ais_bench" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert environment.om_check().value == "ais_bench"
