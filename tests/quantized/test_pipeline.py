"""A quantized file through the stages: its quantization in force, everything else as ever."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

from quantflow.artifacts.comparison import Comparison
from quantflow.artifacts.export_record import ExportRecord, ParityReport
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.ranges_record import ClippingReport, RangesRecord
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.config import OverrideConfig, QuantizationConfig, load_config
from quantflow.errors import QuantflowError
from quantflow.graph.layer_settings import layer_settings
from quantflow.graph.model_io import load_model
from quantflow.stages.pipeline import STAGES, run_stage
from quantflow.stages.stage import Context

from .qdq_models import SCHEMES, Scheme, normal, quantized, read, write_cnn, write_mlp

CONFIG = """
[model]
onnx = "{name}"
[set]
samples = 12
heldout_samples = 10
evaluation_samples = 6
[set.candidates]
kind = "npz"
path = "candidates.npz"
[plan]
policy = "{policy}"
[target]
buckets = [{{ batch = 4 }}]
[run]
directory = "run"
"""

UP_TO_COMPARISON = ("00_model", "10_set", "20_ranges", "30_sweep", "40_onnx", "45_compare")


def run_project(path: Path, shape: tuple[int, ...], policy: str = "none") -> Path:
    folder = path.parent
    np.savez(folder / "candidates.npz", x=normal(40, *shape, seed=8))
    (folder / "quantflow.toml").write_text(CONFIG.format(name=path.name, policy=policy))
    loaded = load_config(folder / "quantflow.toml")
    context = Context(loaded, RunDirectory(folder / "run"))
    for stage in STAGES:
        if stage.folder in UP_TO_COMPARISON:
            run_stage(context, stage)
    return folder / "run"


@pytest.mark.parametrize("scheme", [SCHEMES[0], SCHEMES[2]], ids=str)
def test_the_files_scales_go_through_all_stages(tmp_path: Path, scheme: Scheme) -> None:
    path = quantized(write_mlp(tmp_path), scheme, (4, 16))
    expected = {x.layer: x for x in read(onnx.load(path), {"batch": 4}).record.given}
    run = run_project(path, (16,))
    record = ModelRecord.read(run / "00_model/model.json")
    assert {x.layer: x for x in record.given} == expected
    ranges = RangesRecord.read(run / "20_ranges/ranges.json").ranges
    assert {entry.estimator for entry in ranges} == {"given"}
    export = ExportRecord.read(run / "40_onnx/export.json")
    for entry in export.layers:
        given = expected[entry.layer]
        assert (entry.precision, entry.scale_d, entry.offset_d, entry.scale_w) == (
            "int8", given.scale_d, given.offset_d, given.scale_w
        )  # fmt: skip
    assert ParityReport.read(run / "40_onnx/parity.json").verdict == "pass"
    comparison = Comparison.read(run / "45_compare/comparison.json")
    assert comparison.fidelity["int8"].cosine_mean > 0.999


def test_the_clipping_report_shows_the_estimators_beside_what_is_given(tmp_path: Path) -> None:
    path = quantized(write_mlp(tmp_path), SCHEMES[0], (4, 16))
    run = run_project(path, (16,))
    rows = ClippingReport.read(run / "20_ranges/clipping.json").rows
    chosen = [row for row in rows if row.chosen]
    assert {row.candidate for row in chosen} == {"given"}
    assert {"given", "minmax", "kl", "mse", "percentile"} <= {row.candidate for row in rows}
    counts = Counter((row.tensor, row.split) for row in chosen)
    assert set(counts.values()) == {1}


def test_a_sweep_may_take_layers_of_the_file_back_to_fp16(tmp_path: Path) -> None:
    path = quantized(write_cnn(tmp_path), SCHEMES[0], (4, 3, 8, 8))
    run = run_project(path, (3, 8, 8), policy="auto")
    deploy = load_model(run / "40_onnx/deploy_batch4.onnx")
    types = {node.op_type for node in deploy.graph}
    assert not types & {"QuantizeLinear", "DequantizeLinear"}
    layers = ExportRecord.read(run / "40_onnx/export.json").layers
    assert {entry.precision for entry in layers} <= {"int8", "fp16"}


def test_overrides_of_scales_that_are_given_are_refused(tmp_path: Path) -> None:
    path = quantized(write_mlp(tmp_path), SCHEMES[0], (4, 16))
    record = read(onnx.load(path), {"batch": 4}).record
    override = OverrideConfig(pattern="fc0", estimator="kl")
    with pytest.raises(QuantflowError) as caught:
        layer_settings(record, QuantizationConfig(overrides=(override,)))
    assert caught.value.problems[0].code == "QF512" and "scales" in caught.value.problems[0].what
