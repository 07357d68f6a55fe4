"""A model of the run against tensors that were dumped somewhere else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quantflow.artifacts.sample_set import SampleSet
from quantflow.artifacts.side_by_side import SideBySide
from quantflow.errors import QuantflowError
from quantflow.graph.edit import with_outputs
from tests.evaluation.exported_encoder import compare, export_encoder, float_of
from tests.evaluation.test_dumps import write, write_msprobe
from tests.graph.masked_blocks import MASK_NAME
from tests.graph.models import run
from tests.sensitivity.projects import LENGTH

NAMES = {"n_A0o": "A0o", "n_F0a": "F0b", "y": "y"}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_encoder(tmp_path_factory.mktemp("encoder"), blocks=1)


@pytest.fixture(scope="module")
def dumped(config: Path) -> dict[str, np.ndarray]:
    """Layer outputs of four evaluation samples, ``(4, length, ...)``, by layer name."""
    found = inside_of(config, list(NAMES.values()))
    return {name: found[tensor] for name, tensor in NAMES.items()}


def inputs_of(config: Path) -> tuple[np.ndarray, np.ndarray]:
    """Four evaluation samples and their masks, padded."""
    samples = list(SampleSet(config.parent / "run" / "10_set" / "evaluation").first(4))
    pad = [LENGTH - len(x[MASK_NAME]) for x in samples]
    x = np.stack([np.pad(s["x"], ((0, p), (0, 0))) for s, p in zip(samples, pad, strict=True)])
    mask = np.stack([np.pad(s[MASK_NAME], (0, p)) for s, p in zip(samples, pad, strict=True)])
    return x, mask


def inside_of(config: Path, tensors: list[str]) -> dict[str, np.ndarray]:
    """Tensors of those samples, by onnxruntime."""
    x, mask = inputs_of(config)
    model = with_outputs(float_of(config), tensors)
    parts = [run(model, {"x": x[i : i + 2], MASK_NAME: mask[i : i + 2]}) for i in (0, 2)]
    return {name: np.concatenate([part[name] for part in parts]) for name in tensors}


def layers(found: SideBySide) -> dict[str, float]:
    return {x.name: x.cosine for x in found.points}


def test_samples_lie_along_the_first_axis(
    config: Path, dumped: dict[str, np.ndarray], tmp_path: Path
) -> None:
    found = compare(config, "fp32", str(write(tmp_path, dumped)))
    assert found.samples == 4 and found.verdict == "pass"
    assert set(layers(found)) >= {"n_A0o", "n_F0a", "y"}
    assert min(layers(found).values()) > 0.9999999
    assert found.other.kind == "dump" and found.limits.layers_decide
    assert any("holds 4 of 10 samples" in note for note in found.notes)
    assert any("n_A0q" in note for note in found.notes)  # which the dump lacks


def test_the_sample_that_is_off_is_named(
    config: Path, dumped: dict[str, np.ndarray], tmp_path: Path
) -> None:
    spoiled = {name: array.copy() for name, array in dumped.items()}
    spoiled["n_F0a"][2, 0] *= -1  # a first position is never padding
    found = compare(config, "fp32", str(write(tmp_path, spoiled)))
    assert found.first_beyond is not None and found.first_beyond.point == "n_F0a"
    ids = SampleSet(config.parent / "run" / "10_set" / "evaluation").ids
    row = next(x for x in found.points if x.name == "n_F0a")
    assert row.worst_samples[0] == ids[2] and row.cosine_min < row.cosine < 0.999


def test_padding_of_a_dump_does_not_count(
    config: Path, dumped: dict[str, np.ndarray], tmp_path: Path
) -> None:
    samples = list(SampleSet(config.parent / "run" / "10_set" / "evaluation").first(4))
    spoiled = {name: array.copy() for name, array in dumped.items()}
    for i, sample in enumerate(samples):
        mask = np.pad(sample[MASK_NAME], (0, LENGTH - len(sample[MASK_NAME])))
        for array in spoiled.values():
            array[i, mask == 0] = np.nan
    assert any(np.isnan(array).any() for array in spoiled.values())
    assert compare(config, "fp32", str(write(tmp_path, spoiled))).verdict == "pass"


def test_a_single_sample_needs_no_axis(
    config: Path, dumped: dict[str, np.ndarray], tmp_path: Path
) -> None:
    one = {name: array[0] for name, array in dumped.items()}
    found = compare(config, "fp32", str(write(tmp_path, one)))
    assert found.samples == 1 and found.verdict == "pass"


def test_msprobe_and_sanitized_names_are_matched(
    config: Path, dumped: dict[str, np.ndarray], tmp_path: Path
) -> None:
    probe = {f"Module.{name}.Linear.forward.0": x for name, x in dumped.items()}
    found = compare(config, "fp32", str(write_msprobe(tmp_path / "probe", probe)))
    assert found.verdict == "pass" and {"n_A0o", "n_F0a", "y"} <= set(layers(found))
    tensors = {"a0O": dumped["n_A0o"], "nothing": dumped["y"]}
    found = compare(config, "fp32", str(write(tmp_path / "plain", tensors)))
    assert set(layers(found)) == {"n_A0o"}
    assert any("match nothing: nothing" in note for note in found.notes)


def test_another_shape_is_said_in_its_row(
    config: Path, dumped: dict[str, np.ndarray], tmp_path: Path
) -> None:
    wrong = dumped | {"n_F0a": dumped["n_F0a"][:, :, :-1]}
    found = compare(config, "fp32", str(write(tmp_path, wrong)))
    row = next(x for x in found.points if x.name == "n_F0a")
    assert "shapes or types differ" in row.trouble and found.verdict == "fail"
    assert layers(found)["n_A0o"] > 0.999
    first = found.first_beyond
    assert first is not None and (first.point, first.last_good) == ("n_F0a", "A0o")
    assert first.reason == row.trouble


def test_tensors_inside_a_block_tell_where_in_it_the_error_starts(
    config: Path, dumped: dict[str, np.ndarray], tmp_path: Path
) -> None:
    inner = inside_of(config, ["A0s1", "A0s"])
    held = dumped | {"A0s": inner["A0s"], "A0s1": inner["A0s1"] * np.float32(3)}
    spoiled = held | {"n_A0o": -held["n_A0o"], "x": inputs_of(config)[0]}
    found = compare(config, "fp32", str(write(tmp_path, spoiled)))
    first = found.first_beyond
    assert first is not None and first.point == "n_A0o"
    assert (first.node, first.tensor, first.last_good) == ("n_A0s1", "A0s1", "A0s")
    assert any("2 tensors" in x and "A0s, A0s1" in x for x in found.notes)
    assert any("holds inputs, which are not compared: x" in x for x in found.notes)
    assert not any("match nothing" in x for x in found.notes)


def test_a_dump_of_more_samples_says_how_many_were_compared(
    config: Path, dumped: dict[str, np.ndarray], tmp_path: Path
) -> None:
    found = compare(config, "fp32", str(write(tmp_path / "d", dumped)), limit=3)
    assert found.samples == 3
    assert f"{tmp_path / 'd'} holds 4 samples; the first 3 were compared" in found.notes


def test_other_inputs_are_asked_for_and_may_be_given_as_stage_5_writes_them(
    config: Path, dumped: dict[str, np.ndarray], tmp_path: Path
) -> None:
    turned = {name: np.roll(array, 1, 0) for name, array in dumped.items()}
    side = str(write(tmp_path / "d", turned))
    assert any("were the inputs" in x for x in compare(config, "fp32", side).notes)
    x, mask = (np.roll(array, 1, 0) for array in inputs_of(config))
    path = tmp_path / "samples_batch2_length6.npz"
    outputs = {"int8/y": np.zeros((5, 2)), "fp32/y": np.zeros((5, 2))}  # whatever their axes are
    np.savez(path, allow_pickle=False, **{"input/x": x, f"input/{MASK_NAME}": mask}, **outputs)
    found = compare(config, "fp32", side, samples=path)
    assert found.samples == 4 and found.verdict == "pass"


def test_a_dump_may_be_the_reference_of_int8(
    config: Path, dumped: dict[str, np.ndarray], tmp_path: Path
) -> None:
    found = compare(config, str(write(tmp_path, dumped)), "int8")
    assert found.verdict == "pass" and not found.limits.layers_decide
    assert 0.99 < layers(found)["n_F0a"] < 0.999999
    row = next(x for x in found.points if x.name == "n_F0a")
    assert row.jitter_max_abs == 0.0  # of the side that can run


def test_a_dump_of_something_else_is_refused(config: Path, tmp_path: Path) -> None:
    with pytest.raises(QuantflowError, match="QF342"):
        compare(config, "fp32", str(write(tmp_path, {"other": np.zeros((2, 3), np.float32)})))
