"""A causal language model from torch to the hand-over: names, fp16 islands, perplexity, gates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch

from quantflow.artifacts.comparison import Comparison
from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.ranges_record import Fp16Report
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.artifacts.sample_set import SampleSet
from quantflow.artifacts.sweep_record import SweepRecord
from quantflow.graph.model_io import load_model
from quantflow.stages.pipeline import STAGES
from quantflow.stages.summary import refresh_summary
from tests.sensitivity.projects import context_of, run_one, run_until

from . import tiny_llama


@pytest.fixture(scope="module")
def run(config: Path) -> Path:
    run_until(STAGES[-1].folder, config)
    return config.parent / "run"


@pytest.fixture(scope="module")
def record(run: Path) -> ModelRecord:
    return ModelRecord.read(run / "00_model" / "model.json")


def test_layers_are_called_as_in_the_checkpoint_and_grouped_by_what_they_read(
    record: ModelRecord,
) -> None:
    found = {group.name: (group.role, len(group.layers)) for group in record.groups}
    assert found == {
        f"model.layers.{i}.{name}": about
        for i in range(2)
        for name, about in {
            "self_attn.q_proj+k_proj+v_proj": ("qkv", 3),
            "self_attn.o_proj": ("attention_output", 1),
            "mlp.gate_proj+up_proj": ("ffn", 2),
            "mlp.down_proj": ("ffn", 1),
        }.items()
    } | {"lm_head": ("classifier", 1)}
    assert all(not layer.float_reason for layer in record.layers)


def test_the_table_that_the_head_shares_stays_float_where_it_is_looked_up(run: Path) -> None:
    export = ExportRecord.read(run / "40_onnx" / "export.json")
    deploy = load_model(run / "40_onnx" / export.buckets[0].deploy)
    gather = next(node for node in deploy.graph if node.op_type == "Gather")
    head = next(node for node in deploy.graph if node.name == "lm_head")
    assert gather.inputs[0].dtype == ir.DataType.FLOAT
    assert head.inputs[1].dtype == ir.DataType.INT8
    assert {entry.precision for entry in export.layers if entry.layer == "lm_head"} == {"int8"}


def test_what_fp16_cannot_hold_is_found_in_the_norms_and_nowhere_else(run: Path) -> None:
    report = Fp16Report.read(run / "20_ranges" / "fp16.json")
    assert {tensor.op_type for tensor in report.tensors if tensor.overflow} == {"Pow"}
    assert {island.op_type for island in report.islands} == {"Pow", "ReduceMean"}
    assert all("norm/" in island.node for island in report.islands)


def test_perplexities_are_those_of_torch_and_of_fp16_with_and_without_islands(run: Path) -> None:
    comparison = Comparison.read(run / "45_compare" / "comparison.json")
    assert comparison.task_metric == "perplexity"
    value = {name: score.value for name, score in comparison.task.items()}
    assert set(value) == {"fp32", "fp16", "fp16_plain", "int8"}
    rows = [sample["input_ids"] for sample in SampleSet(run / "10_set" / "evaluation")]
    ids = torch.from_numpy(np.stack(rows))
    with torch.no_grad():
        logits = tiny_llama.build()(ids)[:, :-1].reshape(-1, tiny_llama.WORDS)
    expected = torch.nn.functional.cross_entropy(logits.double(), ids[:, 1:].reshape(-1)).exp()
    assert value["fp32"] == pytest.approx(float(expected), rel=1e-4)
    assert value["fp16"] == pytest.approx(value["fp32"], rel=0.005)
    assert value["fp16_plain"] > 1.3 * value["fp32"]
    assert value["fp32"] < value["int8"] < 1.2 * value["fp32"]
    for score in comparison.task.values():
        assert score.low <= score.value <= score.high


def test_scores_are_perplexities_of_one_group_alone(run: Path) -> None:
    sweep = SweepRecord.read(run / "30_sweep" / "sweep.json")
    assert sweep.metric == "perplexity" and len(sweep.scores) == 9
    # Perplexity is no distance: INT8 may happen to foretell a text better than float.
    for seen in {score.samples for score in sweep.scores}:
        scores = [score for score in sweep.scores if score.samples == seen]
        of_float = {score.one_in.value / np.exp(score.one_in.damage) for score in scores}
        assert max(of_float) == pytest.approx(min(of_float), rel=1e-9)
    assert max(score.samples for score in sweep.scores) == sweep.search_samples == 6
    damages = [score.one_in.damage for score in sweep.scores if score.role == "ffn"]
    assert damages == sorted(damages, reverse=True)
    assert not list((run / "30_sweep").glob("tmp*"))


def test_that_decoding_is_not_covered_is_said(run: Path, record: ModelRecord) -> None:
    summary = refresh_summary(RunDirectory(run)).summary
    assert summary is not None
    for notes in (record.notes, summary.notes):
        assert any("decoding" in note and "cache" in note for note in notes)
    assert set(summary.task) == {"fp32", "fp16", "fp16_plain", "int8"}


@pytest.mark.usefixtures("run")
def test_a_rise_beyond_the_budget_fails_the_gate(config: Path) -> None:
    change = "budget.perplexity_rise_fraction=0.000001"
    outcome = run_one("45_compare", config, change)
    assert outcome.ran
    comparison = Comparison.read(context_of(config).folder("45_compare") / "comparison.json")
    assert comparison.verdict == "fail"
    assert any("perplexity_rise_fraction" in reason for reason in comparison.reasons)
