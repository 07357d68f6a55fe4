"""A cause that is planted in how a model is quantized is named, with what to do about it."""

from __future__ import annotations

import shlex
from pathlib import Path

from quantflow.artifacts.diagnosis_record import DiagnosisRecord
from quantflow.artifacts.drift_record import DriftReport
from quantflow.stages.pipeline import STAGES
from tests.sensitivity.projects import context_of

from .planted import (
    TIGHT,
    diagnosed,
    loud_channels,
    parallel,
    project,
    removed,
    scalable,
    sound,
    uneven_weights,
)


def would_act(found: DiagnosisRecord, config: Path, *overrides: str) -> bool:
    """Whether the next step is a stage's command, with settings that make the stage another one."""
    words = shlex.split(found.next_step)
    command, settings = " ".join(words[:2]), words[3::2]
    assert words[2::2] == ["--set"] * len(settings)
    (stage,) = (stage for stage in STAGES if stage.command == command)
    before, after = context_of(config, *overrides), context_of(config, *overrides, *settings)
    done = after.run.manifest(stage.folder)
    return done is None or stage.inputs(before) != stage.inputs(after)


def test_ten_times_smaller_calibration_samples_are_put_down_to_data(tmp_path: Path) -> None:
    config = project(tmp_path, scalable(), scale=0.1, production=1.0)
    found = diagnosed(config, TIGHT)
    assert found.finding == "data" and found.sentence.startswith("Data: ranges from deployment")
    assert removed(found, "ranges of deployment") > 0.9
    # A layer of the model, whose range is about ten times too small and clips.
    assert "`n_m" in found.sentence and "of its deployment values" in found.sentence
    assert found.next_step == "quantflow build-set --set set.selection=match"
    assert would_act(found, config, TIGHT)


def test_where_matching_has_not_helped_other_candidates_are_asked_for(tmp_path: Path) -> None:
    config = project(tmp_path, scalable(), scale=0.1, production=1.0)
    found = diagnosed(config, TIGHT, 'set.selection="match"')
    drift = DriftReport.read(config.parent / "run" / "10_set" / "drift.json")
    assert found.finding == "data" and drift.verdict == "fail"
    assert found.next_step.startswith("give [set.candidates] samples more like deployment, in ")
    assert f"`{drift.features[0].feature}`" in found.next_step
    assert found.next_step.endswith("then quantflow build-set")


def test_a_percentile_of_90_is_put_down_to_ranges(tmp_path: Path) -> None:
    config = project(tmp_path, sound())
    settings = (TIGHT, 'quantization.estimator="percentile"', "quantization.percentile=90.0")
    found = diagnosed(config, *settings)
    assert found.finding == "ranges" and removed(found, "minmax ranges") > 0.9
    # 10% are beyond on either side.
    assert "clips 20% of its calibration values" in found.sentence
    assert would_act(found, config, *settings)
    assert "percentile ranges" not in {x.name for x in found.experiments}  # those in force


def test_one_scale_for_uneven_channels_is_put_down_to_weights(tmp_path: Path) -> None:
    config = project(tmp_path, uneven_weights())
    settings = (TIGHT, 'quantization.weight_granularity="per-tensor"')
    found = diagnosed(config, *settings)
    assert found.finding == "weights" and "scale per output channel" in found.sentence
    assert removed(found, "weight scales per channel") > 0.9
    assert removed(found, "weights in float") > 0.9
    # Channels are 10^-3 to 1 with equal ratios: the largest is 10^1.5 times the median one.
    assert "31.3 times" in found.sentence
    assert any(f"`n_m{i}` is" in found.sentence for i in range(1, 5))
    assert would_act(found, config, *settings)


def test_loud_channels_of_one_layer_are_put_down_to_that_layer(tmp_path: Path) -> None:
    config = project(tmp_path, loud_channels())
    found = diagnosed(config, TIGHT)
    assert found.finding == "layers" and found.groups[0].group == "n_m3"
    assert found.sentence.startswith("Layers: `n_m3` in fp16, 1 of 9 INT8 groups, removes ")
    assert removed(found, "worst group in fp16") > 0.9
    assert shlex.split(found.next_step)[:2] == ["quantflow", "sweep"]
    assert would_act(found, config, TIGHT)


def test_activations_that_lose_in_every_layer_are_put_down_to_8_bits(tmp_path: Path) -> None:
    config = project(tmp_path, parallel())
    found = diagnosed(config, TIGHT)
    assert found.finding == "activations" and "whatever the range" in found.sentence
    # int8 holds the weights exactly, and each of twelve layers has a twelfth of the loss.
    assert abs(removed(found, "worst group in fp16") - 1 / 12) < 0.05
    assert removed(found, "activations in float") > 0.99
    assert found.next_step == "quantflow optimize" and would_act(found, config, TIGHT)
