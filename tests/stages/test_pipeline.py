"""A conversion that does not follow from the stages before it is gone."""

from __future__ import annotations

import json

import pytest

from quantflow.artifacts.run_directory import RunDirectory
from quantflow.report.artifacts import read_artifacts

from .conftest import RunStages


@pytest.mark.parametrize(
    ("folder", "change"),
    [
        ("20_ranges", "quantization.symmetric=true"),
        ("45_compare", "budget.cosine_mean=1.0"),  # the gate fails, the files are the same
        ("10_set", "set.samples=11"),
    ],
)
def test_a_stage_that_comes_to_something_else_takes_the_conversion_with_it(
    folder: str, change: str, run_stages: RunStages, run: RunDirectory
) -> None:
    run_stages()
    (run.root / "50_om.partial").mkdir()
    (outcome,) = run_stages(folder, change=change)
    assert outcome.discarded == ("50_om",)
    assert not list(run.root.glob("50_om*"))
    assert (run.root / "40_onnx").exists()  # what is refused as stale may stay
    (again,) = run_stages(folder, change=change)
    assert (again.ran, again.discarded) == (False, ())


def test_a_stage_that_comes_to_the_same_leaves_it(run_stages: RunStages, run: RunDirectory) -> None:
    run_stages()
    for folder in ("00_model", "20_ranges", "40_onnx", "45_compare"):
        (outcome,) = run_stages(folder, force=True)
        assert outcome.ran and outcome.discarded == ()
    # Nor does it matter what only the conversion itself would do otherwise.
    run_stages("40_onnx", force=True, change="atc.timeout_s=5")
    assert (run.folder("50_om") / "om.json").exists()


def test_a_failed_gate_with_the_same_plan_takes_it_too(
    run_stages: RunStages, run: RunDirectory
) -> None:
    run_stages()
    plan = (run.folder("30_sweep") / "plan.json").read_bytes()
    (outcome,) = run_stages("30_sweep", change="budget.cosine_mean=1.0")
    assert (run.folder("30_sweep") / "plan.json").read_bytes() == plan
    assert outcome.discarded == ("50_om",)


def test_a_conversion_made_before_the_comparison_is_outdated_by_it_but_stays(
    run_stages: RunStages, run: RunDirectory
) -> None:
    run_stages("00_model", "10_set", "20_ranges", "40_onnx", "50_om")
    assert read_artifacts(run).outdated == ()
    (outcome,) = run_stages("45_compare")
    assert outcome.discarded == ()
    assert read_artifacts(run).outdated == ("50_om",)
    assert json.loads((run.folder("50_om") / "om.json").read_text())["status"] == "not-converted"


def test_a_conversion_beside_an_outdated_comparison_is_up_to_date(
    run_stages: RunStages, run: RunDirectory
) -> None:
    run_stages()
    stages = ("20_ranges", "25_optimize", "30_sweep", "40_onnx", "50_om")
    run_stages(*stages, change="quantization.symmetric=true")
    assert read_artifacts(run).outdated == ("45_compare",)


def test_a_damaged_manifest_is_no_reason_to_keep_it(
    run_stages: RunStages, run: RunDirectory
) -> None:
    run_stages()
    (run.folder("50_om") / "stage.json").write_text("{")
    (outcome,) = run_stages("40_onnx", force=True)
    assert outcome.discarded == ("50_om",)
