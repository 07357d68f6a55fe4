"""Stage 2 with a profile in place of held-out samples: the same verdict, and no sample needed."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from quantflow.artifacts.coverage_record import CoverageReport
from quantflow.artifacts.ranges_record import ClippingReport
from quantflow.artifacts.sample_set import SampleSet
from quantflow.artifacts.stability_record import StabilityReport
from quantflow.calibration.profile.profile_file import load_profile
from quantflow.ranges.channel_file import load_channel_absmax
from quantflow.ranges.histogram_file import load_histograms
from tests.graph.blocks import WIDTH
from tests.graph.masked_blocks import MASK_NAME
from tests.graph.models import rand
from tests.sensitivity.projects import LENGTH, encoder_project, run_one, run_until

DEPLOYMENT = """
deployment_samples = 24
[set.deployment]
kind = "npz"
path = "production.npz"
"""


def _with(config: Path, what: str) -> None:
    config.write_text(config.read_text().replace("[set.candidates]", what + "[set.candidates]"))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Run directories, of a project with production's samples and of one with their profile."""
    first, second = (tmp_path_factory.mktemp(name) for name in ("samples", "profile"))
    config = encoder_project(first, blocks=1)
    rng = np.random.default_rng(1)
    mask = (np.arange(LENGTH) < rng.integers(2, LENGTH + 1, (60, 1))).astype(np.int64)
    x = 3 * rand(60, LENGTH, WIDTH, seed=1)
    x[mask == 0] = 1e3  # padding, which is no activation
    np.savez(first / "production.npz", **{"x": x, MASK_NAME: mask})
    _with(config, DEPLOYMENT)
    run_until("20_ranges", config)
    other = encoder_project(second, blocks=1)
    shutil.copy(first / "run" / "10_set" / "profile.safetensors", second / "production.safetensors")
    _with(other, 'profile = "production.safetensors"\n')
    run_until("20_ranges", other)
    return first / "run", second / "run"


def test_coverage_says_where_deployment_comes_from(folders: tuple[Path, Path]) -> None:
    sampled, profiled = (CoverageReport.read(x / "20_ranges" / "coverage.json") for x in folders)
    assert (sampled.deployment, sampled.heldout_samples) == ("held-out samples", 10)
    assert (profiled.deployment, profiled.heldout_samples) == ("profile", 24)
    assert sampled.verdict == profiled.verdict == "fail"  # three times as large
    assert all(row.worst_samples == () for row in profiled.rows)
    assert any(row.worst_samples for row in sampled.rows)


def test_the_coverage_is_that_of_the_samples_behind_the_profile(
    folders: tuple[Path, Path],
) -> None:
    sampled, profiled = folders
    # The first tensor is the encoder's input, so that its activations need no model.
    deployed = list(SampleSet(sampled / "10_set" / "deployment"))
    calibrated = list(SampleSet(profiled / "10_set" / "calibration"))
    values, seen = (
        [sample["x"][sample[MASK_NAME] == 1] for sample in some] for some in (deployed, calibrated)
    )
    low, high = min(x.min() for x in seen), max(x.max() for x in seen)
    margin = (max(high, 0) - min(low, 0)) / 510
    outside = [x.min() < low - margin or x.max() > high + margin for x in values]
    rows = CoverageReport.read(profiled / "20_ranges" / "coverage.json").rows
    (row,) = [row for row in rows if row.tensor == "x"]
    assert row.samples_outside_fraction == pytest.approx(np.mean(outside))
    flat = np.concatenate([x.ravel() for x in values])
    assert row.outside_fraction == pytest.approx(((flat < low) | (flat > high)).mean(), abs=0.01)
    beyond = max(low - flat.min(), flat.max() - high)
    # Extremes of samples are rounded towards zero, to 7 bits behind the first.
    reach = 1 + beyond / (max(high, 0) - min(low, 0))
    assert reach * (1 - 2**-7) <= row.reach <= reach


def test_clipping_and_histograms_of_deployment_are_the_profile_s(
    folders: tuple[Path, Path],
) -> None:
    _, profiled = folders
    profile = load_profile(profiled / "10_set" / "profile.safetensors")
    ranges = profiled / "20_ranges"
    held = load_histograms(ranges / "histograms.safetensors")["heldout"]
    absmax = load_channel_absmax(ranges / "channel_absmax.safetensors")["heldout"]
    assert set(held) == set(profile.tensors) == set(absmax)
    for name, tensor in profile.tensors.items():
        np.testing.assert_array_equal(held[name].counts, tensor.histogram.counts)
        assert not len(absmax[name])  # channels would identify samples
    rows = ClippingReport.read(ranges / "clipping.json").rows
    for row in rows:
        if row.split == "heldout":
            assert row.absmax == profile.tensors[row.tensor].histogram.absmax
            assert row.worst_samples == ()


def test_a_profile_of_another_model_leaves_the_held_out_samples_in_place(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    config = encoder_project(tmp_path, blocks=2)
    shutil.copy(folders[0] / "10_set" / "profile.safetensors", tmp_path / "production.safetensors")
    _with(config, 'profile = "production.safetensors"\n')
    run_until("20_ranges", config)
    coverage = CoverageReport.read(tmp_path / "run" / "20_ranges" / "coverage.json")
    assert (coverage.deployment, coverage.heldout_samples) == ("held-out samples", 10)


def test_the_stage_says_how_stable_ranges_are(folders: tuple[Path, Path]) -> None:
    sampled, profiled = folders
    report = StabilityReport.read(profiled / "20_ranges" / "stability.json")
    coverage = CoverageReport.read(profiled / "20_ranges" / "coverage.json")
    assert [row.tensor for row in report.rows] == [row.tensor for row in coverage.rows]
    assert report.samples == 12 and len(report.reasons) == 1  # 16 would be needed
    config = sampled.parent / "quantflow.toml"
    before = (sampled / "20_ranges" / "stability.json").read_bytes()
    run_one("20_ranges", config, force=True)
    assert (sampled / "20_ranges" / "stability.json").read_bytes() == before
