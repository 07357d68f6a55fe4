from pathlib import Path

import pytest

from quantflow.artifacts.ranges_record import NonFinite
from quantflow.errors import ExitCode
from quantflow.report.artifacts import read_artifacts
from quantflow.report.gates import all_gates, exit_code, finite_gate, overall, parity_gate
from quantflow.report.next_steps import next_steps
from tests.report.sample_run import comparison, om, parity, ranges, write_run, write_stage

NAN = NonFinite(tensor="h", split="calibration", nan=2, inf=1, samples=("calibration[1]",))


def test_values_that_are_not_finite_fail_and_are_located() -> None:
    gate = finite_gate(ranges(NAN))
    assert gate.verdict == "fail"
    assert "h: 2 NaN and 1 Inf on the calibration samples, in calibration[1]" in gate.reasons


def test_finite_values_pass() -> None:
    assert finite_gate(ranges()).verdict == "pass"


def test_a_failed_parity_names_only_the_layers_that_differ() -> None:
    (reason,) = parity_gate(parity("fail")).reasons
    assert reason.startswith("block.key: cosine 0.9000000, accumulators differ")


@pytest.mark.parametrize(
    ("status", "verdict", "code"),
    [
        ("converted", "pass", ExitCode.OK),
        ("converted", "warn", ExitCode.OK),
        ("not-converted", "pass", ExitCode.ENVIRONMENT),
        ("not-converted", "fail", ExitCode.GATE_FAILED),
        ("failed", "pass", ExitCode.ATC_FAILED),
        ("failed", "fail", ExitCode.GATE_FAILED),
    ],
)
def test_a_failed_gate_wins_over_the_conversion(
    tmp_path: Path, status: str, verdict: str, code: ExitCode
) -> None:
    found = read_artifacts(
        write_run(tmp_path, om_record=om(status), comparison_record=comparison(verdict, ("why",)))
    )
    assert exit_code(all_gates(found), found.om) == code
    assert overall(all_gates(found)) == verdict


def test_a_stage_made_from_results_that_changed_is_left_out(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    write_stage(run, "20_ranges", ("00_model", "10_set"), {"ranges.json": ranges(NAN)})
    found = read_artifacts(run)
    assert found.outdated == ("40_onnx", "45_compare", "50_om")
    assert found.comparison is None and found.summary is None and found.export is None
    assert found.ranges is not None and found.model is not None


def test_only_the_folders_asked_for_are_read(tmp_path: Path) -> None:
    found = read_artifacts(write_run(tmp_path), only=("40_onnx",))
    assert found.parity is not None and found.ranges is None


def test_the_next_step_is_the_failed_gate_before_the_conversion(tmp_path: Path) -> None:
    run = write_run(tmp_path, comparison_record=comparison("fail", ("misses the budget",)))
    steps = next_steps(read_artifacts(run))
    assert "quantflow show layers" in steps[0]
    assert "convert.py" in steps[1]


def test_the_next_step_of_an_empty_run_is_the_first_command(tmp_path: Path) -> None:
    run = write_run(tmp_path / "full")
    assert next_steps(read_artifacts(type(run)(tmp_path / "empty"))) == ["run `quantflow prepare`"]
