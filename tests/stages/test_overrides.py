"""Per-layer settings from the configuration to the files of stages 2 and 4 (C24)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from quantflow.__main__ import main
from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.ranges_record import RangesRecord
from tests.cli.tiny_project import write_project

STAGES = ("prepare", "build-set", "calibrate", "export-onnx")

OVERRIDES = """
[plan]
policy = "none"
[quantization]
estimator = "minmax"
[[quantization.overrides]]
pattern = "second"
estimator = "percentile"
percentile = 90.0
[[quantization.overrides]]
pattern = "*"
symmetric = true
[[quantization.overrides]]
pattern = "first"
symmetric = false
weight_granularity = "per-tensor"
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("overrides")
    config = write_project(folder)
    config.write_text(config.read_text() + OVERRIDES)
    for stage in STAGES:
        assert main([stage, "-q", "-c", str(config)]) == 0
    return folder / "run"


def ranges(run: Path) -> dict[str, Any]:
    return {x.tensor: x for x in RangesRecord.read(run / "20_ranges" / "ranges.json").ranges}


def test_each_tensor_has_the_estimator_and_symmetry_it_was_given(run: Path) -> None:
    found = ranges(run)
    by_layer = dict(zip(("first", "second", "head"), found.values(), strict=True))
    assert [by_layer[x].estimator for x in by_layer] == ["minmax", "percentile", "minmax"]
    assert [by_layer[x].symmetric for x in by_layer] == [False, True, True]


def test_a_percentile_of_its_own_clips_what_it_says(run: Path) -> None:
    # The input of `second` is a Relu's: at the 90th percentile, far below its largest value.
    rows = json.loads((run / "20_ranges" / "clipping.json").read_text())["rows"]
    (row,) = [
        x
        for x in rows
        if x["chosen"] and x["split"] == "calibration" and x["candidate"] == "percentile"
    ]
    assert row["clipped_high_fraction"] == pytest.approx(0.10, abs=0.02)


def test_granularity_is_the_layer_s_own(run: Path) -> None:
    record = ExportRecord.read(run / "40_onnx" / "export.json")
    counts = {layer.layer: len(layer.scale_w) for layer in record.layers}
    assert counts == {"first": 1, "second": 32, "head": 8}
    told = {layer.layer: layer.weight_granularity for layer in record.layers}
    assert told == {"first": "per-tensor", "second": "per-channel", "head": "per-channel"}
    # A symmetric scale maps the largest magnitude, of the tensor or of the column, to 127.
    stored = {x.name: numpy_helper.to_array(x) for x in _initializers(run.parent / "model.onnx")}
    first, *others = (np.abs(stored[f"w{i}"].astype(np.float64)) for i in range(3))
    scales = [layer.scale_w for layer in record.layers]
    np.testing.assert_allclose(scales[0], [first.max() / 127], rtol=1e-6)
    for found, weight in zip(scales[1:], others, strict=True):
        np.testing.assert_allclose(found, weight.max(axis=0) / 127, rtol=1e-6)


def _initializers(path: Path) -> Any:
    return onnx.load(path).graph.initializer


def test_what_was_overridden_is_recorded(run: Path) -> None:
    origins = [entry.overridden for entry in ranges(run).values()]
    assert origins[0] == "symmetric by quantization.overrides[2]"
    assert "percentile by quantization.overrides[0]" in origins[1]
    assert origins[2] == "symmetric by quantization.overrides[1]"


def test_an_override_of_nothing_stops_stage_2_at_once(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = run.parent / "quantflow.toml"
    entry = '[{ pattern = "secnod", estimator = "kl" }]'
    command = ["calibrate", "-q", "-c", str(config), "--set", f"quantization.overrides={entry}"]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "QF511" in said and "'second'" in said
