from dataclasses import replace
from pathlib import Path

import pytest

from quantflow.artifacts.ranges_record import NonFinite, RangesRecord
from quantflow.artifacts.record import Verdict
from quantflow.errors import ExitCode
from quantflow.report.artifacts import read_artifacts
from quantflow.report.gates import (
    SPELLED_OUT,
    all_gates,
    coverage_gate,
    drift_gate,
    exit_code,
    finite_gate,
    hygiene_gate,
    overall,
    parity_gate,
    plan_gate,
)
from quantflow.report.next_steps import next_steps
from tests.report.sample_run import (
    comparison,
    cosine_measure,
    coverage,
    diagnosis,
    drift,
    edit_plan,
    hygiene,
    om,
    parity,
    perplexity_measure,
    perplexity_sweep,
    ranges,
    sweep,
    write_diagnosis,
    write_run,
    write_stage,
)

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


@pytest.mark.parametrize("verdict", ["pass", "warn", "fail"])
def test_the_gates_of_the_set_and_the_ranges_follow_their_reports(verdict: Verdict) -> None:
    gates = drift_gate(drift(verdict)), coverage_gate(coverage(verdict))
    for gate in (*gates, hygiene_gate(hygiene(verdict))):
        assert gate.verdict == verdict
        assert bool(gate.reasons) == (verdict != "pass")


def test_a_set_that_was_drawn_at_random_is_told_of_matching() -> None:
    random = drift("fail").model_copy(update={"selection": "random"})
    assert "match" in drift_gate(random).fix and "match" not in drift_gate(drift("fail")).fix


def test_of_many_layers_outside_their_range_some_are_named_and_the_others_counted() -> None:
    reasons = coverage_gate(coverage("fail", layers=20)).reasons
    assert len(reasons) == SPELLED_OUT + 1
    assert f"{21 - SPELLED_OUT} layers more" in reasons[-1]


def test_a_plan_that_was_not_verified_fails_with_the_reasons() -> None:
    gate = plan_gate(sweep(verified=False), edited=False)
    missed = "mean cosine is 0.985000, 0.005 below the limit of 0.99"
    assert gate.verdict == "fail" and gate.reasons == ("no plan meets the budget", missed)
    assert "quantflow show sides" in gate.fix
    assert plan_gate(sweep(), edited=False).reasons == ()


def test_every_limit_that_a_plan_misses_is_told_with_the_distance_to_it() -> None:
    found = perplexity_sweep()
    update = {"measures": (perplexity_measure(22.0),), "fp16_groups": 5}
    policies = (*found.policies[:2], found.policies[2].model_copy(update=update))
    record = found.model_copy(update={"verified": False, "policies": policies})
    assert plan_gate(record, edited=False).reasons == (
        "rise of the perplexity is 10.00%, 4 points above the limit of 6%",
        "44.44% of MACs are in INT8, 30.56 points below the limit of 75%",
        "5 groups are in fp16, 2 above the limit of 3",
    )


def test_a_measure_of_broken_outputs_is_missed_in_words() -> None:
    found = sweep(verified=False)
    update = {"measures": (cosine_measure(float("nan")),)}
    policies = (*found.policies[:2], found.policies[2].model_copy(update=update))
    reasons = plan_gate(found.model_copy(update={"policies": policies}), edited=False).reasons
    assert reasons[-1] == "mean cosine is not finite, and so misses the limit of 0.99"


@pytest.mark.parametrize("verified", [True, False])
def test_an_edited_plan_is_left_to_the_comparison(tmp_path: Path, verified: bool) -> None:
    run = write_run(tmp_path, sweep_record=sweep(verified=verified))
    edit_plan(run)
    found = read_artifacts(run)
    (gate,) = [gate for gate in all_gates(found) if gate.stage == "30_sweep"]
    assert gate.verdict == "warn" and "the comparison judges it" in gate.reasons[0]
    assert exit_code([gate], None) == ExitCode.OK


def test_what_was_made_from_the_plan_before_it_was_edited_is_left_out(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    assert read_artifacts(run).outdated == ()
    edit_plan(run)
    found = read_artifacts(run)
    assert found.outdated == ("40_onnx", "45_compare", "50_om")
    assert found.plan is not None and found.plan.fp16_groups == []
    assert found.sweep is not None and found.plan_edited


def test_before_stage_3_the_plan_is_the_one_that_was_exported(tmp_path: Path) -> None:
    found = read_artifacts(write_run(tmp_path), only=("40_onnx",))
    assert found.plan is not None and found.plan.fp16_groups == ["head"]
    assert not found.plan_edited


@pytest.mark.parametrize(
    ("status", "verdict", "code"),
    [
        ("converted", "pass", ExitCode.OK),
        ("converted", "warn", ExitCode.OK),
        ("not-converted", "pass", ExitCode.ENVIRONMENT),
        ("not-converted", "fail", ExitCode.GATE_FAILED),
        ("refused", "pass", ExitCode.USAGE),  # of the configuration: atc never started
        ("refused", "fail", ExitCode.GATE_FAILED),
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
    assert found.outdated == ("25_optimize", "30_sweep", "40_onnx", "45_compare", "50_om")
    assert found.comparison is None and found.summary is None and found.export is None
    assert found.ranges is not None and found.model is not None


def test_only_the_folders_asked_for_are_read(tmp_path: Path) -> None:
    found = read_artifacts(write_run(tmp_path), only=("40_onnx",))
    assert found.parity is not None and found.ranges is None


def test_the_next_step_is_the_failed_gate_before_the_conversion(tmp_path: Path) -> None:
    run = write_run(tmp_path, comparison_record=comparison("fail", ("misses the budget",)))
    steps = next_steps(read_artifacts(run))
    assert "`quantflow diagnose`" in steps[0] and "quantflow show layers" in steps[0]
    assert "convert.py" in steps[1]


def test_what_a_diagnosis_has_found_is_the_next_step(tmp_path: Path) -> None:
    run = write_run(tmp_path, comparison_record=comparison("fail", ("misses the budget",)))
    write_diagnosis(run)
    steps = next_steps(read_artifacts(run))
    assert steps[0].startswith("quantflow build-set --set set.selection=match")
    few = diagnosis().model_copy(update={"finding": "nothing", "samples": 2})
    again = replace(read_artifacts(run), diagnosis=few)
    assert "`quantflow diagnose --samples 3`" in next_steps(again)[0]
    write_stage(run, "20_ranges", ("00_model", "10_set"), {"ranges.json": ranges(NAN)})
    found = read_artifacts(run)
    assert found.diagnosis is None and "46_diagnosis" in found.outdated


def test_a_diagnosis_that_misses_the_budget_fails_until_a_comparison_decides(
    tmp_path: Path,
) -> None:
    run = write_run(tmp_path)
    write_diagnosis(run)
    compared = read_artifacts(run)
    assert "diagnosis" not in {gate.name for gate in all_gates(compared)}
    alone = replace(compared, comparison=None, om=None)
    (gate,) = (gate for gate in all_gates(alone) if gate.stage == "46_diagnosis")
    assert gate.verdict == "fail" and gate.reasons == (diagnosis().sentence,)
    assert exit_code(all_gates(alone), None) == ExitCode.GATE_FAILED
    assert next_steps(alone)[0].startswith(diagnosis().next_step)
    for met in ({"within_budget": True}, {"finding": "nothing"}):
        within = replace(alone, diagnosis=diagnosis().model_copy(update=met))
        assert overall(all_gates(within)) == "pass"
        assert next_steps(within) == ["run `quantflow compare`"]


def test_the_next_step_of_an_empty_run_is_the_first_command(tmp_path: Path) -> None:
    run = write_run(tmp_path / "full")
    assert next_steps(read_artifacts(type(run)(tmp_path / "empty"))) == ["run `quantflow prepare`"]


def test_an_output_that_is_not_finite_fails_though_no_layer_reads_it() -> None:
    gate = finite_gate(RangesRecord(ranges=(), nonfinite=()), ["scores"])
    assert gate.verdict == "fail" and "'scores'" in gate.reasons[0]
