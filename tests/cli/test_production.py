"""`quantflow profile` and `quantflow watch`: production in brief, and whether calibration holds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Call
from tests.cli.tiny_project import DEPLOYMENT, add_deployment, write_project


@pytest.fixture
def config(tmp_path: Path) -> Path:
    found = write_project(tmp_path)
    add_deployment(found, scale=1.0)
    found.write_text(found.read_text().replace("samples = 12", "samples = 60", 1))
    values = np.random.default_rng(3).normal(size=(120, 16)).astype(np.float32)
    np.savez(tmp_path / "candidates.npz", x=values)
    return found


def _npz(path: Path, scale: float, seed: int = 7) -> str:
    values = np.random.default_rng(seed).normal(size=(150, 16)).astype(np.float32)
    np.savez(path, x=values * np.float32(scale))
    return f"npz:{path}"


def test_a_profile_stands_in_for_the_samples_it_was_made_of(
    call: Call, config: Path, tmp_path: Path
) -> None:
    assert call("build-set", "-c", config, "-q").code == 2  # there is no model yet
    assert call("prepare", "-c", config, "-q").code == 0
    assert call("build-set", "-c", config, "-q").code == 0
    judged = json.loads((tmp_path / "run" / "10_set" / "drift.json").read_text())
    made = tmp_path / "run" / "10_set" / "profile.safetensors"
    profile = tmp_path / "p.safetensors"
    profile.write_bytes(made.read_bytes())
    by_profile = tmp_path / "by_profile.toml"
    text = config.read_text().replace(DEPLOYMENT, "")
    text = text.replace("[set]", f'[set]\nprofile = "{profile}"').replace('"run"', '"other"')
    # The same evaluation samples are passed over, so that the same candidates are drawn.
    text += '\n[set.evaluation]\nkind = "npz"\npath = "deployment.npz"\n'
    by_profile.write_text(text)
    assert call("prepare", "-c", by_profile, "-q").code == 0
    assert call("build-set", "-c", by_profile, "-q").code == 0
    again = json.loads((tmp_path / "other" / "10_set" / "drift.json").read_text())
    assert again["classifier"] is None and judged["classifier"] is not None
    assert again["warn_above"] == judged["warn_above"]
    assert again["counts"]["deployment"] == judged["counts"]["deployment"]
    assert (tmp_path / "other" / "10_set" / "profile.safetensors").read_bytes() == (
        made.read_bytes()
    )
    assert call("calibrate", "-c", by_profile, "-q").code == 0
    coverage = json.loads((tmp_path / "other" / "20_ranges" / "coverage.json").read_text())
    assert coverage["deployment"] == "profile"
    assert coverage["heldout_samples"] == judged["counts"]["deployment"]


def test_profile_writes_what_it_says_and_no_sample(
    call: Call, config: Path, tmp_path: Path
) -> None:
    output = tmp_path / "production.safetensors"
    answer = call("profile", "-c", config, "-o", output, "-q", "--json", "--samples", "50")
    assert answer.code == 0
    assert answer.json["samples"] == 50 and len(answer.json["tensors"]) == 3
    assert {"x.mean", "y[0]"} < set(answer.json["features"])
    without = call("profile", "-c", config, "-o", output, "-q", "--json", "--no-model").json
    assert without["tensors"] == [] and "y[0]" not in without["features"]
    told = call("profile", "-c", config, "-o", output, "-q").out
    assert told.splitlines()[-1].startswith("WRITTEN ")


def test_watch_holds_for_the_same_traffic_and_not_for_other(
    call: Call, config: Path, tmp_path: Path
) -> None:
    for command in ("prepare", "build-set", "calibrate"):
        assert call(command, "-c", config, "-q").code == 0
    same = call("watch", "-c", config, "-q", "--source", _npz(tmp_path / "same.npz", 1.0))
    assert same.code == 0 and same.out.splitlines()[-1].startswith("HOLDS")
    report = tmp_path / "now.json"
    other = call(
        "watch", "-c", config, "-q", "-o", report, "--source", _npz(tmp_path / "other.npz", 3.0)
    )
    assert other.code == 1 and other.out.splitlines()[-1].startswith("NO LONGER HOLDS")
    found = json.loads(report.read_text())
    assert found["verdict"] == found["coverage"]["verdict"] == found["drift"]["verdict"] == "fail"
    outside = {row["tensor"]: row["samples_outside_fraction"] for row in found["coverage"]["rows"]}
    assert outside["x"] > 0.5
    assert "x.std" in {row["feature"] for row in found["drift"]["features"][:4]}
    profile = tmp_path / "p.safetensors"
    made = call("profile", "-c", config, "-q", "-o", profile, "--source", "npz:other.npz")
    assert made.code == 2  # relative to the working directory
    source = f"npz:{tmp_path / 'other.npz'}"
    assert call("profile", "-c", config, "-q", "-o", profile, "--source", source).code == 0
    again = call("watch", "-c", config, "-q", "--json", "--profile", profile)
    assert again.code == 1
    assert again.json["drift"] == found["drift"] and again.json["coverage"] == found["coverage"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--source", "nonsense"), "QF103", "it is not KIND:PATH"),
        (("--source", "zip:x"), "QF103", "as a source"),
        (("--source", "npz:a", "--profile", "b"), "QF103", "not both"),
        (("--profile", "nowhere.safetensors"), "QF313", "not a deployment profile"),
    ],
)
def test_what_cannot_be_read_is_said(
    call: Call, config: Path, arguments: tuple[str, ...], code: str, words: str
) -> None:
    answer = call("watch", "-c", config, "-q", *arguments)
    assert answer.code == 2
    assert code in answer.err and words in answer.err


@pytest.mark.parametrize("place", [".", "quantflow.toml/p"])
def test_an_output_that_cannot_be_written_is_said_before_the_work(
    call: Call, config: Path, tmp_path: Path, place: str
) -> None:
    for command in ("profile", "watch"):
        answer = call(command, "-c", config, "-q", "-o", tmp_path / place)
        assert answer.code == 3 and "QF604" in answer.err
    assert not (tmp_path / "run" / "00_model").exists()


def test_a_profile_that_is_not_there_is_said(call: Call, tmp_path: Path) -> None:
    config = write_project(tmp_path)
    assert call("prepare", "-c", config, "-q").code == 0
    answer = call("build-set", "-c", config, "-q", "--set", "set.profile=nowhere.safetensors")
    assert answer.code == 2 and "QF104" in answer.err and "set.profile" in answer.err


def test_watch_needs_a_calibrated_run(call: Call, config: Path, tmp_path: Path) -> None:
    output = tmp_path / "p.safetensors"
    assert call("profile", "-c", config, "-q", "-o", output).code == 0
    answer = call("watch", "-c", config, "-q", "--profile", output)
    assert answer.code == 2 and "quantflow build-set" in answer.err


def test_a_profile_of_other_inputs_is_refused(call: Call, config: Path, tmp_path: Path) -> None:
    from quantflow.calibration.profile.profile_file import save_profile
    from tests.calibration.drift_tables import normal, profile

    path = tmp_path / "other.safetensors"
    save_profile(path, profile(normal(np.random.default_rng(0), 60)))
    for command in ("prepare", "build-set", "calibrate"):
        assert call(command, "-c", config, "-q").code == 0
    answer = call("watch", "-c", config, "-q", "--profile", path)
    assert answer.code == 2 and "QF314" in answer.err and "f0" in answer.err
