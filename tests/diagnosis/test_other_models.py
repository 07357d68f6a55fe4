"""Weights that were rebuilt badly, models that came quantized, and budgets of another metric."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from quantflow.artifacts.model_record import ModelRecord
from quantflow.export.int8_weights import LayerWeights
from quantflow.graph.model_io import load_model
from quantflow.ranges.choose_ranges import weights_of_layers
from quantflow.stages import work_diagnosis
from tests.quantized.qdq_models import SCHEMES, quantized, write_mlp
from tests.sensitivity.projects import run_until

from .planted import TIGHT, diagnose, diagnosed, parallel, project, read, removed, sound


def test_weights_that_were_rounded_badly_are_put_down_to_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = project(tmp_path, parallel())
    run_until("20_ranges", config, TIGHT)
    folder = config.parent / "run" / "00_model"
    record, of = ModelRecord.read(folder / "model.json"), load_model(folder / "model.onnx")
    weight_of, rng = weights_of_layers(of), np.random.default_rng(0)
    rounded = dict[str, LayerWeights]()
    for layer in record.layers:
        weight = weight_of(layer)
        scales = (np.abs(weight).max(axis=0) / 127).astype(np.float32)
        # Off by up to 32 steps, where the nearest is off by half a step.
        steps = weight / scales + rng.integers(-32, 33, weight.shape)
        integers = np.clip(np.rint(steps), -127, 127).astype(np.int8)
        rounded[layer.name] = LayerWeights(integers, scales, None)

    def load(_: Path) -> Mapping[str, LayerWeights]:
        return rounded

    monkeypatch.setattr(work_diagnosis, "load_int8_weights", load)
    diagnose(config, TIGHT, samples=16)
    found = read(config)
    assert found.finding == "weights" and removed(found, "weights rounded to the nearest") > 0.9
    assert found.next_step == "quantflow optimize --set optimize.rounding=false"


def test_the_scales_of_a_model_that_came_quantized_are_not_questioned(tmp_path: Path) -> None:
    path = quantized(write_mlp(tmp_path), SCHEMES[0], (4, 16))
    config = project(tmp_path, sound())
    text = config.read_text().replace('"model.onnx"', f'"{path.name}"').replace("8}]", "4}]")
    config.write_text(text)
    rng = np.random.default_rng(3)
    np.savez(tmp_path / "candidates.npz", x=rng.normal(size=(300, 16)).astype(np.float32))
    found = diagnosed(config, TIGHT)
    assert {"data", "ranges"}.isdisjoint({x.cause for x in found.experiments})
    assert any("came quantized" in note for note in found.notes)


def test_the_loss_is_told_in_what_the_budget_asks_for(tmp_path: Path) -> None:
    """Decisions that change, where the percentile is to blame."""
    task = '\n[task]\nkind = "agreement"\n[budget]\nagreement_fraction = 0.99\n'
    config = project(tmp_path, sound(), more=task)
    settings = ('quantization.estimator="percentile"', "quantization.percentile=90.0")
    found = diagnosed(config, *settings, samples=64)
    assert found.metric == "agreement" and found.finding == "ranges"
    assert [x.metric for x in found.experiments[0].measures] == ["agreement", "cosine"]
