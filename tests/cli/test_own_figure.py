"""A user's own function as the task: figures of all precisions, its budget, and what goes wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantflow.artifacts.comparison import Comparison
from quantflow.artifacts.sample_set import SampleSet
from tests.cli.conftest import Call
from tests.cli.tiny_project import write_project

TASK = """
[plan]
policy = "none"
[task]
kind = "function"
function = "own_task:miss"
higher_is_better = false
"""

MODULE = """
import numpy as np

rng = np.random.default_rng(0)
w0, w1, w2 = (rng.normal(size=s).astype("f") / 6 for s in ((16, 32), (32, 32), (32, 8)))


def miss(id, inputs, outputs):
    # What is expected of a sample comes from elsewhere; here, from the model's own weights.
    assert id.startswith("candidates"), id
    (x,), (y,) = inputs.values(), outputs.values()
    assert x.shape == (16,) and y.shape == (8,)
    exact = np.tanh(np.maximum(x @ w0, 0) @ w1) @ w2
    y -= exact
    return 3 + np.abs(y).max()
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))  # without atc
    path = write_project(tmp_path)
    path.write_text(path.read_text() + TASK)
    (tmp_path / "own_task.py").write_text(MODULE)
    return path


def compared(config: Path) -> Comparison:
    return Comparison.read(config.parent / "run" / "45_compare" / "comparison.json")


def test_every_precision_has_the_users_figure_with_its_interval(call: Call, config: Path) -> None:
    answer = call("run", "-c", config, "-q")
    assert answer.code == 3, answer.err  # passed, not converted for want of atc
    comparison = compared(config)
    assert comparison.task_metric == "miss" and "miss" in answer.out
    found = comparison.task
    assert set(found) == {"fp32", "fp16", "int8"}
    assert found["fp32"].value == pytest.approx(3, abs=1e-5)
    assert 3 < found["fp16"].value < 3.01 < found["int8"].value < 3.2
    assert all(score.low <= score.value <= score.high for score in found.values())
    measure = comparison.measures["function"]["int8"]
    assert measure.damage == pytest.approx(found["int8"].value - found["fp32"].value, rel=1e-9)
    assert measure.low < measure.damage < measure.high and measure.limit is None
    summary = json.loads((config.parent / "run" / "summary.json").read_text())
    assert summary["task"]["int8"]["value"] == found["int8"].value
    assert "miss" in (config.parent / "run" / "report.html").read_text()


def test_fp32s_figure_is_that_of_the_evaluation_samples(call: Call, config: Path) -> None:
    module = "def miss(id, inputs, outputs):\n    return inputs['x'].sum() + len(id)\n"
    (config.parent / "own_task.py").write_text(module)
    assert call("run", "-c", config, "-q").code == 3
    samples = SampleSet(config.parent / "run" / "10_set" / "evaluation")
    values = [float(x["x"].sum()) + len(i) for x, i in zip(samples, samples.ids, strict=True)]
    for score in compared(config).task.values():
        assert score.value == pytest.approx(np.mean(values), rel=1e-6)
        assert score.low < score.value < score.high


def test_a_drop_beyond_the_budget_fails_with_the_reason(call: Call, config: Path) -> None:
    answer = call(
        "run", "-c", config, "--json", "-q", "--keep-going", "--set", "budget.task_drop=0"
    )
    assert answer.code == 1
    (gate,) = [x for x in answer.json["gates"] if x["stage"] == "45_compare"]
    (reason,) = [x for x in gate["reasons"] if "int8" in x]
    assert gate["verdict"] == "fail"
    assert reason.startswith("int8 misses the budget: mean miss 3.")
    assert reason.endswith("budget.task_drop is 0.0")
    allowed = call("compare", "-c", config, "--set", "budget.task_drop=0.5")
    assert allowed.code == 0 and compared(config).verdict == "pass"
    # A figure is asked for, so that the cosine is not.
    assert compared(config).measures["cosine"]["int8"].limit is None


def test_the_comparison_runs_anew_when_the_functions_source_changes(
    call: Call, config: Path
) -> None:
    assert call("run", "-c", config, "-q").code == 3
    module = config.parent / "own_task.py"
    module.write_text(MODULE.replace("return 3 +", "return 5 +"))
    states: dict[str, Any] = {
        entry["stage"]: entry
        for entry in call("run", "-c", config, "--dry-run", "--json").json["stages"]
    }
    assert states["20_ranges"]["state"] == "current"
    assert states["30_sweep"]["why"] == "changed: task.function"
    assert call("run", "-c", config, "-q").code == 3
    assert compared(config).task["fp32"].value == pytest.approx(5, abs=1e-5)


@pytest.mark.parametrize("name", ["own_task:mis", "own_tusk:miss"])
def test_a_function_that_is_not_there_is_known_before_anything_is_done(
    call: Call, config: Path, name: str
) -> None:
    change = ("--set", f"task.function={name}")
    answer = call("run", "-c", config, *change)
    assert answer.code == 2 and "QF105" in answer.err
    assert not (config.parent / "run" / "00_model").exists()
    doctor = call("doctor", "-c", config, *change)
    assert doctor.code == 2 and doctor.out.count("QF105") == 1
    assert "task.function" in doctor.out


def test_what_the_function_raises_is_said_with_the_sample(call: Call, config: Path) -> None:
    module = config.parent / "own_task.py"
    module.write_text("def miss(id, inputs, outputs):\n    return outputs['z']\n")
    answer = call("run", "-c", config)
    assert answer.code == 2
    assert "QF312 on sample 'candidates" in answer.err and "KeyError: 'z'" in answer.err
