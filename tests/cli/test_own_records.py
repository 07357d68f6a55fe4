"""Labelled records and retrieval as the task of a whole run: figures, pairs, budget, bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from quantflow.artifacts.comparison import Comparison
from tests.cli.conftest import Call
from tests.cli.tiny_project import write_project

LABELLED = """
[plan]
policy = "none"
[task]
kind = "classification"
source = { kind = "npz", path = "labelled.npz" }
labels = "labels.txt"
"""
RETRIEVAL = """
[plan]
policy = "none"
[task]
kind = "retrieval"
queries = { kind = "npz", path = "queries.npz" }
documents = { kind = "npz", path = "documents.npz" }
"""


SIMILARITY = """
[plan]
policy = "none"
[task]
kind = "similarity"
source = { kind = "npz", path = "documents.npz" }
scores = "scores.npy"
[budget]
task_drop = 0.9
"""


def outputs(folder: Path, x: Any) -> Any:
    """The model in numpy."""
    graph = onnx.load(folder / "model.onnx").graph
    w0, w1, w2 = (numpy_helper.to_array(x).astype(float) for x in graph.initializer)
    return np.tanh(np.maximum(x @ w0, 0) @ w1) @ w2


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project, with 60 labelled records, 30 queries and 40 documents beside it."""
    monkeypatch.setenv("PATH", str(tmp_path))  # without atc
    path, rng = write_project(tmp_path), np.random.default_rng(5)
    x = rng.normal(size=(60, 16)).astype(np.float32)
    np.savez(tmp_path / "labelled.npz", x=x)
    order = np.argsort(-outputs(tmp_path, x), axis=1)
    labels = order[np.arange(60), np.repeat([0, 3, 6], [40, 12, 8])]
    np.savetxt(tmp_path / "labels.txt", labels, fmt="%d")
    documents = rng.normal(size=(40, 16)).astype(np.float32)
    queries = documents[:30] + rng.normal(size=(30, 16)).astype(np.float32)
    np.savez(tmp_path / "documents.npz", x=documents)
    np.savez(tmp_path / "queries.npz", x=queries)
    return path


def given(config: Path, task: str) -> Path:
    config.write_text(config.read_text() + task)
    return config


def compared(config: Path) -> Comparison:
    return Comparison.read(config.parent / "run" / "45_compare" / "comparison.json")


def test_labelled_records_are_judged_in_every_precision_and_pair(call: Call, config: Path) -> None:
    answer = call("run", "-c", given(config, LABELLED), "-q")
    assert answer.code == 3, answer.err  # passed, not converted for want of atc
    found = compared(config)
    assert found.task_metric == "top1_accuracy" and set(found.task) == {"fp32", "fp16", "int8"}
    assert found.task["fp32"].value == pytest.approx(40 / 60)
    assert found.task_details["top5_accuracy"]["fp32"].value == pytest.approx(52 / 60)
    pairs = {(pair.model, pair.baseline): pair for pair in found.paired}
    assert list(pairs) == [("int8", "fp16"), ("int8", "fp32"), ("fp16", "fp32")]
    for pair in found.paired:
        values = found.task[pair.model].value, found.task[pair.baseline].value
        assert pair.samples == 60 and pair.damage == pytest.approx(values[1] - values[0])
        assert pair.lost is not None and pair.gained is not None and pair.p_value is not None
        assert (pair.lost - pair.gained) / 60 == pytest.approx(pair.damage)
    assert found.measures["classification"]["fp32"].damage == 0
    assert found.measures["cosine"]["int8"].limit == pytest.approx(0.01)
    assert "int8 against fp16" in answer.out
    assert "int8 against fp16" in (config.parent / "run" / "report.html").read_text()


def test_retrieval_ranks_documents_by_the_cosine_of_the_first_output(
    call: Call, config: Path
) -> None:
    assert call("run", "-c", given(config, RETRIEVAL), "-q").code == 3
    found = compared(config)
    q, d = (
        outputs(config.parent, np.load(config.parent / name)["x"])
        for name in ("queries.npz", "documents.npz")
    )
    q, d = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (q, d))
    cosines = q @ d.T
    ranks = np.array([1 + int((row > row[i]).sum()) for i, row in enumerate(cosines)])
    assert ranks.max() > 2  # or there would be nothing to tell
    assert found.task_metric == "mrr"
    assert found.task["fp32"].value == pytest.approx(float((1 / ranks).mean()))
    details = found.task_details
    assert details["recall@1"]["fp32"].value == pytest.approx(float((ranks <= 1).mean()))
    assert details["recall@10"]["fp32"].value == pytest.approx(float((ranks <= 10).mean()))
    assert [pair.samples for pair in found.paired] == [30] * 3
    assert found.paired[0].p_value is None and found.paired[0].asked_drop == 0.01


def test_a_correlation_is_compared_over_documents(call: Call, config: Path) -> None:
    found = outputs(config.parent, np.load(config.parent / "documents.npz")["x"])
    units = found / np.linalg.norm(found, axis=1, keepdims=True)
    np.save(config.parent / "scores.npy", units @ units.T)
    assert call("run", "-c", given(config, SIMILARITY), "-q").code == 3
    comparison = compared(config)
    assert comparison.task_metric == "spearman" and comparison.verdict == "pass"
    assert comparison.task["fp32"].value == pytest.approx(1, abs=1e-6)
    assert comparison.task["int8"].value < 1
    pair = comparison.paired[1]
    assert (pair.baseline, pair.samples, pair.asked_drop) == ("fp32", 40, 0.9)
    assert pair.damage == pytest.approx(1 - comparison.task["int8"].value, abs=1e-6)
    assert 0 < pair.low < pair.damage < pair.high < 0.1 and pair.p_value is None
    assert comparison.measures["similarity"]["int8"].limit == 0.9


def test_the_drop_is_judged_by_its_interval(call: Call, config: Path) -> None:
    assert call("run", "-c", given(config, LABELLED), "-q").code == 3
    few = call("compare", "-c", config, "--set", "budget.task_drop=0.005")
    assert few.code == 0 and compared(config).verdict == "warn"
    (reason,) = compared(config).reasons
    assert reason.startswith("too few samples to tell whether int8 meets the budget: top1_accuracy")
    assert "budget.task_drop is 0.005" in reason
    wide = call("compare", "-c", config, "--set", "budget.task_drop=0.5")
    assert wide.code == 0 and compared(config).verdict == "pass"
    # A cosine was asked for where nothing is that the sweep can measure.
    assert compared(config).measures["cosine"]["int8"].limit == pytest.approx(0.01)


def test_labels_that_do_not_fit_are_known_before_anything_is_measured(
    call: Call, config: Path
) -> None:
    given(config, LABELLED)
    (config.parent / "labels.txt").write_text("0 1 2")
    answer = call("run", "-c", config, "-q")
    assert answer.code == 2 and "QF316" in answer.err and "(60,)" in answer.err
    assert not (config.parent / "run" / "20_ranges").exists()


def test_the_comparison_runs_anew_when_the_labels_change(call: Call, config: Path) -> None:
    assert call("run", "-c", given(config, LABELLED), "-q").code == 3
    (config.parent / "labels.txt").write_text("0\n" * 60)
    stages = call("run", "-c", config, "--dry-run", "--json").json["stages"]
    states = {entry["stage"]: entry for entry in stages}
    assert states["40_onnx"]["state"] == "current"
    assert states["45_compare"]["why"] == "changed: task.labels"
