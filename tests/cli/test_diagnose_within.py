"""`quantflow diagnose` where its own samples are within the budget."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quantflow.cli.next_command import typed
from tests.cli.conftest import Call
from tests.cli.test_own_records import LABELLED, outputs
from tests.cli.tiny_project import write_project

LOUD = 20


@pytest.fixture
def labelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose labelled records leave the calibrated ranges by far, labels from fp32."""
    monkeypatch.setenv("PATH", str(tmp_path))  # without atc
    path, rng = write_project(tmp_path), np.random.default_rng(5)
    x = rng.normal(size=(200, 16)).astype(np.float32) * np.float32(LOUD)
    np.savez(tmp_path / "labelled.npz", x=x)
    np.savetxt(tmp_path / "labels.txt", np.argmax(outputs(tmp_path, x), axis=1), fmt="%d")
    path.write_text(path.read_text() + LABELLED + "[budget]\ntask_drop = 0.01\n")
    return path


def test_a_missed_figure_of_the_task_is_explained_in_cosine(call: Call, labelled: Path) -> None:
    common = ("-q", "-c", labelled)
    for command in ("prepare", "build-set", "calibrate", "export-onnx"):
        assert call(command, *common).code == 0
    before = call("diagnose", *common)
    assert before.code == 0 and "Nothing to explain" in before.out
    following = f"next: run `quantflow optimize --config {labelled}"
    assert before.out.splitlines()[-1].endswith(f"{following}`")
    failed = call("compare", *common)
    assert failed.code == 1 and "quantflow diagnose" in failed.out.splitlines()[-1]
    found = call("diagnose", *common, "--json")
    diagnosis = found.json["diagnosis"]
    assert found.code == 1 and found.json["ran"] and diagnosis["metric"] == "cosine"
    missed = "The comparison misses the budget in top1_accuracy (budget.task_drop is 0.01)"
    assert diagnosis["sentence"].startswith(f"{missed}, which is not measured here")
    assert diagnosis["finding"] != "nothing" and len(diagnosis["experiments"]) > 2
    after = call("compare", *common).out.splitlines()[-1]
    assert typed(diagnosis["next_step"], labelled) in after and "quantflow diagnose" not in after
    allowed = call("diagnose", *common, "--set", "budget.task_drop=1")
    assert allowed.code == 0  # the comparison is of another budget
    assert allowed.out.splitlines()[-1].endswith(f"{following} --set budget.task_drop=1`")


def test_a_loss_within_the_budget_is_explained_where_that_is_asked(
    call: Call, tmp_path: Path
) -> None:
    common = ("-q", "-c", write_project(tmp_path), "--json")
    for command in ("prepare", "build-set", "calibrate"):
        assert call(command, *common).code == 0
    answer = call("diagnose", *common, "--anyway")
    diagnosis = answer.json["diagnosis"]
    assert answer.code == 0 and diagnosis["within_budget"]
    assert diagnosis["sentence"].startswith("Within the budget; ")
    assert diagnosis["next_step"] and len(diagnosis["experiments"]) > 2
    shown = call("diagnose", *common[:-1], "--anyway")
    assert shown.code == 0 and shown.out.splitlines()[-1].startswith("WITHIN THE BUDGET, ")
    plain = call("diagnose", *common)
    assert plain.code == 0 and plain.json["ran"]  # the other was asked for something else
    assert plain.json["diagnosis"]["finding"] == "nothing"
    assert plain.json["diagnosis"]["next_step"] == "run `quantflow optimize`"
