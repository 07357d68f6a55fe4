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
    samples = list(SampleSet(config.parent / "run" / "10_set" / "evaluation").first(4))
    pad = [LENGTH - len(x[MASK_NAME]) for x in samples]
    x = np.stack([np.pad(s["x"], ((0, p), (0, 0))) for s, p in zip(samples, pad, strict=True)])
    mask = np.stack([np.pad(s[MASK_NAME], (0, p)) for s, p in zip(samples, pad, strict=True)])
    model = with_outputs(float_of(config), list(NAMES.values()))
    parts = [run(model, {"x": x[i : i + 2], MASK_NAME: mask[i : i + 2]}) for i in (0, 2)]
    return {n: np.concatenate([part[t] for part in parts]) for n, t in NAMES.items()}


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
