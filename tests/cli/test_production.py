"""`quantflow profile` and `quantflow watch`: production in brief, and whether calibration holds."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from safetensors.numpy import load

from tests.cli.conftest import Call
from tests.cli.tiny_project import DEPLOYMENT, add_deployment, write_model, write_project


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
    assert answer.json["samples"] == 50
    assert answer.json["tensors"] == ["r0", "r1"]  # of x, the input, nothing leaves
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
    assert again.json["drift"] == found["drift"]
    seen = {
        row["tensor"]: row["samples_outside_fraction"] for row in again.json["coverage"]["rows"]
    }
    assert seen == {name: outside[name] for name in ("r0", "r1")}


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


def test_a_profile_that_leaves_holds_nothing_of_single_samples(
    call: Call, config: Path, tmp_path: Path
) -> None:
    output = tmp_path / "p.safetensors"
    source = _npz(tmp_path / "traffic.npz", 1.0)
    assert call("profile", "-c", config, "-q", "-o", output, "--source", source).code == 0
    data = output.read_bytes()
    assert b"traffic.npz, seed 0" in data and str(tmp_path).encode() not in data
    arrays = load(data)
    parts = {name.rpartition("/")[2] for name in arrays if name.startswith("tensors/")}
    assert parts == {"bins", "counts", "inf", "low", "high"}
    assert {name.split("/")[1] for name in arrays if name.startswith("tensors/")} == {"r0", "r1"}
    assert arrays["joint/sizes"].min() >= 4
    with np.load(tmp_path / "traffic.npz") as values:
        exact = np.abs(values["x"]).max(axis=1)
    place = _names(data).index("x.absmax")
    told = np.concatenate([arrays["edges"][place], arrays["centres"][place]])
    assert not np.isin(told[np.isfinite(told)], exact.astype(np.float64)).any()


def _names(data: bytes) -> list[str]:
    size = int.from_bytes(data[:8], "little")
    return json.loads(next(iter(json.loads(data[8 : 8 + size])["__metadata__"].values())))["names"]


def _write_other(path: Path) -> None:
    """A model like that of the project, with weights twice as large."""
    write_model(path)
    model = onnx.load(path)
    for weight in model.graph.initializer:
        doubled = 2 * numpy_helper.to_array(weight)
        weight.CopyFrom(numpy_helper.from_array(doubled, weight.name))
    onnx.save(model, path)


def test_few_samples_do_not_leave_but_may_be_watched(
    call: Call, config: Path, tmp_path: Path
) -> None:
    values = np.random.default_rng(5).normal(size=(31, 16)).astype(np.float32)
    np.savez(tmp_path / "few.npz", x=np.concatenate([values, values]))  # 31 different ones
    source, output = f"npz:{tmp_path / 'few.npz'}", tmp_path / "p.safetensors"
    answer = call("profile", "-c", config, "-q", "-o", output, "--source", source)
    assert answer.code == 2 and "QF308" in answer.err
    assert "only 31 of the 62 samples" in answer.err and "takes 32" in answer.err
    assert not output.exists()
    for command in ("prepare", "build-set", "calibrate"):
        assert call(command, "-c", config, "-q").code == 0
    assert call("watch", "-c", config, "-q", "--source", source).code in (0, 1)


def test_what_is_there_and_no_regular_file_is_not_written(
    call: Call, config: Path, tmp_path: Path
) -> None:
    assert call("prepare", "-c", config, "-q").code == 0
    os.mkfifo(tmp_path / "pipe")
    stage = tmp_path / "run" / "00_model"
    places = (tmp_path / "pipe", Path("/dev/null"), stage / "new", stage / "model.json")
    for place in (
        *places,
        tmp_path / ("n" * 300),
        tmp_path / "run" / "x" / ".." / "00_model" / "y",
    ):
        for command in ("profile", "watch"):
            answer = call(command, "-c", config, "-q", "-o", place)
            assert answer.code == 3 and "QF604" in answer.err, place
    assert (tmp_path / "pipe").is_fifo() and not (stage / "new").exists()
    assert call("profile", "-c", config, "-q", "--no-model", "-o", tmp_path / ("n" * 250)).code == 0


def test_watch_does_not_write_over_the_profile_it_reads(
    call: Call, config: Path, tmp_path: Path
) -> None:
    output, link = tmp_path / "p.safetensors", tmp_path / "link"
    assert call("profile", "-c", config, "-q", "-o", output).code == 0
    link.symlink_to(output)
    for place in (output, link):
        answer = call("watch", "-c", config, "-q", "--profile", output, "-o", place)
        assert answer.code == 3 and "QF604" in answer.err and "a file that is read" in answer.err


def test_watch_refuses_a_configuration_that_is_not_the_run_s(
    call: Call, config: Path, tmp_path: Path
) -> None:
    output = tmp_path / "p.safetensors"
    for command in ("prepare", "build-set", "calibrate"):
        assert call(command, "-c", config, "-q").code == 0
    assert call("profile", "-c", config, "-q", "-o", output).code == 0
    watch = ("watch", "-c", config, "-q", "--profile", output)
    assert call(*watch).code == 0
    answer = call(*watch, "--set", "quantization.estimator=kl")
    assert answer.code == 2 and "QF407" in answer.err and "20_ranges" in answer.err
    _write_other(tmp_path / "model.onnx")
    answer = call(*watch)
    assert answer.code == 2 and "QF407" in answer.err and "model.onnx changed" in answer.err
    write_model(tmp_path / "model.onnx")
    _npz(tmp_path / "deployment.npz", 1.0)  # data may have changed
    assert call(*watch).code == 0


def test_a_profile_of_another_model_is_a_warning(call: Call, config: Path, tmp_path: Path) -> None:
    for command in ("prepare", "build-set", "calibrate"):
        assert call(command, "-c", config, "-q").code == 0
    _write_other(tmp_path / "other.onnx")
    other = ("--set", "model.onnx=other.onnx", "--set", "run.directory=other")
    output = tmp_path / "p.safetensors"
    assert call("profile", "-c", config, "-q", "-o", output, *other).code == 0
    answer = call("watch", "-c", config, "-q", "--json", "--profile", output)
    assert answer.code == 0 and answer.json["coverage"] is None
    assert answer.json["verdict"] == "warn" and answer.json["drift"]["verdict"] == "pass"
    assert answer.json["reasons"] == ["the profile is of another model: ranges were not judged"]
