"""The hand-over folder lets somebody with an NPU convert, feed and judge the model."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping

import numpy as np
import pytest

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.artifacts.sample_set import SampleSet
from quantflow.errors import Problem, QuantflowError
from quantflow.runtime.runner import Feeds
from quantflow.stages import work_5_om

from .conftest import WEIGHTS, RunStages


def test_inputs_are_listed_in_the_order_of_the_graph(
    run_stages: RunStages, run: RunDirectory
) -> None:
    run_stages()
    plan = json.loads((run.folder("50_om") / "conversions.json").read_text())
    shapes = [
        word
        for conversion in plan["conversions"]
        for word in conversion["arguments"]
        if word.startswith("--input_shape=")
    ]
    int8_and_fp16 = ["--input_shape=z:1,16;a:1,16"] * 2 + ["--input_shape=z:4,16;a:4,16"] * 2
    assert shapes == int8_and_fp16
    text = (run.folder("50_om") / "README.txt").read_text()
    assert re.findall(r"(\w+) +(\w) +float32 +4,(\d+)", text) == [
        ("input", "z", "16"),
        ("input", "a", "16"),
        ("output", "y", "8"),
    ]


def test_samples_and_what_the_models_make_of_them_travel(
    run_stages: RunStages, run: RunDirectory
) -> None:
    run_stages()
    evaluation = list(SampleSet(run.folder("10_set") / "evaluation"))
    for size in (1, 4):
        with np.load(run.folder("50_om") / f"samples_batch{size}.npz") as file:
            found = {name: file[name] for name in file.files}
        assert set(found) == {"input/z", "input/a", "int8/y", "fp32/y"}
        for name in ("z", "a"):
            expected = np.stack([sample[name] for sample in evaluation[:size]])
            np.testing.assert_array_equal(found[f"input/{name}"], expected)
        exact = found["input/z"] @ WEIGHTS["wz"] + found["input/a"] @ WEIGHTS["wa"]
        np.testing.assert_allclose(found["fp32/y"], exact, rtol=1e-5, atol=1e-5)
        error = np.abs(found["int8/y"] - exact).max()
        assert 1e-5 < error < 0.1  # quantized indeed, and not by much


def test_the_folder_is_the_same_bytes_every_time(run_stages: RunStages, run: RunDirectory) -> None:
    run_stages()
    folder = run.folder("50_om")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    run_stages("50_om", force=True)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with zipfile.ZipFile(folder / "samples_batch1.npz") as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_a_conversion_does_not_wait_for_the_comparison_but_says_so(
    run_stages: RunStages, run: RunDirectory
) -> None:
    folders = ("00_model", "10_set", "20_ranges", "40_onnx", "50_om")
    run_stages(*folders)
    readme = run.folder("50_om") / "README.txt"
    assert "not compared yet" in readme.read_text()
    run_stages("45_compare", "50_om")
    cosine = json.loads((run.folder("45_compare") / "comparison.json").read_text())
    mean = cosine["fidelity"]["int8"]["cosine_mean"]
    assert f"{mean:.6f} on average" in readme.read_text()
    # A comparison of an earlier export says nothing of this one.
    run_stages("20_ranges", "40_onnx", "50_om", change="quantization.symmetric=true")
    assert "not compared yet" in readme.read_text()


def test_a_bucket_that_no_sample_fits_is_named(
    run_stages: RunStages, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit_sample(sample: Feeds, record: ModelRecord, dims: Mapping[str, int]) -> Feeds:
        if dims["batch"] == 4:
            raise QuantflowError([Problem("QF320", "too long")])
        return sample

    monkeypatch.setattr(work_5_om, "fit_sample", fit_sample)
    run_stages()
    folder = run.folder("50_om")
    assert [path.name for path in folder.glob("*.npz")] == ["samples_batch1.npz"]
    assert "No evaluation sample fits batch4" in (folder / "README.txt").read_text()
