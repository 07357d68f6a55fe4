"""What is around atc: its variables, its Python's packages, its operators, the machine's NPU."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantflow.artifacts.om_record import Finding
from quantflow.ascend import environment
from quantflow.ascend.ask_program import LARGEST_ANSWER, ask_program
from quantflow.ascend.compiler_packages import PACKAGES, missing_packages, package_findings
from quantflow.ascend.environment import environment_findings, ops_findings
from quantflow.ascend.installed_chip import installed_chips, other_chip_findings
from quantflow.target.chips import CHIPS, chip_called


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def cann(tmp_path: Path) -> dict[str, str]:
    """An environment that lacks nothing."""
    for name in ("toolkit", "opp"):
        (tmp_path / name).mkdir()
    program(tmp_path / "bin" / "python3", "echo asked")
    return {
        "ASCEND_TOOLKIT_HOME": str(tmp_path / "toolkit"),
        "ASCEND_OPP_PATH": str(tmp_path / "opp"),
        "PATH": str(tmp_path / "bin"),
    }


def found(executable: str | None, environ: Mapping[str, str], *scripts: Path) -> list[Finding]:
    findings = list(environment_findings(executable, environ, scripts))
    assert all(f.level == "warning" and f.fix for f in findings)
    return findings


def test_cann_that_is_installed_but_not_sourced_is_said(
    tmp_path: Path, cann: dict[str, str]
) -> None:
    script = tmp_path / "set_env.sh"
    script.write_text("")
    (finding,) = found(None, {}, tmp_path / "older.sh", script)
    assert finding.fix == f"source {script}"
    assert found("/bin/atc", cann, script) == []
    assert found(None, {}, tmp_path / "none.sh") == []


@pytest.mark.parametrize("name", ["ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH"])
def test_a_variable_that_is_missing_or_points_nowhere_is_said(
    name: str, cann: dict[str, str], tmp_path: Path
) -> None:
    gone = {**cann, name: str(tmp_path / "gone")}
    for executable in ("/bin/atc", None):
        (finding,) = found(executable, gone)
        assert name in finding.what and "set_env.sh" in finding.fix
    del gone[name]
    (finding,) = found("/bin/atc", gone)
    assert name in finding.what and "set_env.sh" in finding.fix
    assert found(None, gone) == []  # without CANN there is nothing to set


@pytest.mark.parametrize(
    ("value", "fine"), [("8", True), ("0", False), ("33", False), ("x", False)]
)
def test_the_number_of_compile_processes_is_bounded(
    value: str, fine: bool, cann: dict[str, str]
) -> None:
    assert (found("/bin/atc", {**cann, "TE_PARALLEL_COMPILER": value}) == []) == fine


def test_a_host_without_a_driver_is_told_to_use_devlib(
    cann: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "_DRIVER", tmp_path / "no_driver")
    machine = environment.os.uname().machine
    devlib = tmp_path / "toolkit" / f"{machine}-linux" / "devlib"
    devlib.mkdir(parents=True)
    (finding,) = found("/bin/atc", cann)
    assert str(devlib) in finding.fix
    assert found("/bin/atc", {**cann, "LD_LIBRARY_PATH": f"/x:{devlib}"}) == []


def test_packages_that_atc_s_python_lacks_are_named_with_the_pip_line(
    cann: dict[str, str], tmp_path: Path
) -> None:
    # This Python, but with nothing of its environment on its path.
    bare = program(tmp_path / "bin" / "python3", f'exec {shlex.quote(sys.executable)} -S "$@"')
    (finding,) = found("/bin/atc", cann)
    assert finding.fix == f"{bare} -m pip install {' '.join(PACKAGES.values())}"
    assert found(None, cann) == []
    # Packages that can be imported, whatever else is missing.
    library = tmp_path / "library"
    (library / "google" / "protobuf").mkdir(parents=True)
    for name in ("numpy.py", "yaml.py", "google/__init__.py", "google/protobuf/__init__.py"):
        (library / name).write_text("")
    missing = missing_packages(str(bare), {"PYTHONPATH": str(library)})
    assert missing is not None
    assert set(PACKAGES.values()) - set(missing) == {"numpy", "pyyaml", "protobuf"}


@pytest.mark.parametrize(
    "script", ["exit 1", "echo 'Python 2.7'", "echo asked rm", "printf '\\377'"]
)
def test_a_python_that_answers_nonsense_is_said(
    script: str, cann: dict[str, str], tmp_path: Path
) -> None:
    program(tmp_path / "bin" / "python3", script)
    (finding,) = package_findings(cann)
    assert "did not answer" in finding.what
    (finding,) = package_findings({"PATH": "/nowhere"})
    assert "none on PATH" in finding.what


def test_operators_of_other_chips_alone_are_said(cann: dict[str, str], tmp_path: Path) -> None:
    config = tmp_path / "opp" / "built-in" / "op_impl" / "ai_core" / "tbe" / "config"
    assert list(ops_findings("Ascend310P3", cann)) == []  # a place that is not known says nothing
    (config / "ascend910b").mkdir(parents=True)
    (config / "readme.txt").write_text("")
    (finding,) = ops_findings("Ascend310P3", cann)
    assert "ascend910b" in finding.what and "Ascend310P3" in finding.fix
    assert list(ops_findings("Ascend910B4", cann)) == []
    (config / "ascend310p").mkdir()
    assert list(ops_findings("Ascend310P3", cann)) == []
    assert list(ops_findings("Ascend310P3", {})) == []


# The table that npu-smi prints: a row a card, and one a chip of it.
TABLE = """+------------------------------------------------------------------------------------+
| npu-smi 24.1.rc1                     Version: 24.1.rc1                              |
+-----------------------+-----------------+------------------------------------------+
| NPU     Name          | Health          | Power(W)     Temp(C)      Hugepages-Usage |
| Chip    Device        | Bus-Id          | AICore(%)    Memory-Usage(MB)             |
+=======================+=================+==========================================+
| 2       NAME          | OK              | NA           44           0    / 0        |
| 0       0             | 0000:01:00.0    | 0            1852 / 21527                 |
+=======================+=================+==========================================+
| NPU     Chip          | Process id      | Process name | Process memory(MB)         |
| 2       0             | 4711            | python3      | 90                         |
+=======================+=================+==========================================+
"""


@pytest.mark.parametrize("name", ["310P3", "910B4-1", "910_9391", "950PR_9589"])
def test_the_chip_is_read_from_npu_smi_s_table(name: str) -> None:
    assert installed_chips(TABLE.replace("NAME", name)) == [f"Ascend{name}"]
    assert installed_chips(TABLE.replace("NAME", "Tensor9")) == []


@given(st.text() | st.text(alphabet="| 0123PBA\n-"))
def test_anything_else_that_it_prints_is_passed_over(text: str) -> None:
    assert set(installed_chips(text)) <= {*CHIPS}


def test_names_with_and_without_ascend_are_the_same_chip() -> None:
    assert chip_called("310P3") == chip_called("Ascend310P3") == "Ascend310P3"
    assert chip_called("910") is None and chip_called("") is None


def test_another_chip_than_the_target_is_a_warning(tmp_path: Path) -> None:
    smi = program(tmp_path / "npu-smi", f"[ $1 = info ] && cat <<'END'\n{TABLE}END")
    smi.write_text(smi.read_text().replace("NAME", "910B4"))
    environ = {"PATH": f"{tmp_path}:/bin:/usr/bin"}
    (finding,) = other_chip_findings("Ascend310P3", environ)
    assert finding.level == "warning" and "Ascend910B4" in finding.what
    assert "Ascend910B4" in finding.fix
    assert list(other_chip_findings("Ascend910B4", environ)) == []
    assert list(other_chip_findings("Ascend310P3", {"PATH": "/nowhere"})) == []


@pytest.mark.parametrize("script", ["exit 7", "head -c 300000 /dev/zero", "echo '| 1 rubbish |'"])
def test_an_npu_smi_that_fails_or_rambles_says_nothing(script: str, tmp_path: Path) -> None:
    program(tmp_path / "npu-smi", script)
    assert list(other_chip_findings("Ascend310P3", {"PATH": f"{tmp_path}:/bin:/usr/bin"})) == []


def test_a_program_is_asked_for_so_long_and_so_much(tmp_path: Path) -> None:
    environ = {"PATH": "/bin:/usr/bin"}
    endless = program(tmp_path / "endless", "yes")
    start = time.monotonic()
    assert len(ask_program([str(endless)], environ)) == LARGEST_ANSWER
    # A child that keeps the pipe open is ended, too.
    silent = program(tmp_path / "silent", "sleep 60 & sleep 60")
    assert ask_program([str(silent)], environ, time_limit_s=0.3) == ""
    assert time.monotonic() - start < 10
    assert ask_program([str(tmp_path / "none")], environ) == ""
