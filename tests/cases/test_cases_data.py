"""Calibration data that is not what production sends, through the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantflow.__main__ import main
from quantflow.artifacts.sample_set import SampleInfo
from quantflow.calibration.draw import Batch
from quantflow.calibration.drift.report import drift_report
from quantflow.calibration.features.extract import Extractor
from quantflow.calibration.features.table import FeatureTable
from quantflow.calibration.profile.profile import make_profile
from tests.cases.drawn import drawn
from tests.cli.tiny_project import DEPLOYMENT, add_deployment, write_project


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    """A command's exit status and its JSON."""
    capsys.readouterr()
    status = main([*arguments, "-q", "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.fixture(autouse=True)
def no_atc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def test_other_traffic_fails_naming_features_and_the_layers_that_leave_their_range(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # C30: production is three times as large as what is calibrated on.
    config = write_project(tmp_path)
    add_deployment(config, scale=3.0)
    options = ("-c", str(config), "--set", "set.samples=30")
    assert asked(capsys, "prepare", *options)[0] == 0
    assert asked(capsys, "build-set", *options)[0] == 1
    assert asked(capsys, "calibrate", *options)[0] == 1
    drift = json.loads((tmp_path / "run" / "10_set" / "drift.json").read_text())
    coverage = json.loads((tmp_path / "run" / "20_ranges" / "coverage.json").read_text())
    assert any("x." in reason for reason in drift["reasons"])
    assert any(reason.startswith("first: ") for reason in coverage["reasons"])
    # The share of production samples beyond the calibrated extremes, counted with numpy.
    calibration = np.load(tmp_path / "candidates.npz")["x"][drawn(tmp_path)]
    served = np.load(tmp_path / "deployment.npz")["x"][drawn(tmp_path, "heldout")]
    low, high = calibration.min(), calibration.max()
    margin = (high - low) / 510  # half a step of 255 counts as rounding
    outside = ((served < low - margin) | (served > high + margin)).any(axis=1).mean()
    assert outside > 0.5
    (row,) = [row for row in coverage["rows"] if row["tensor"] == "x"]
    assert row["samples_outside_fraction"] == pytest.approx(outside)
    assert row["verdict"] == "fail"


def test_the_first_sample_fifty_times_is_one_sample(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # C28: as a vendor's how-to appends it; only what calibration is given matters here.
    config = write_project(tmp_path)
    rng = np.random.default_rng(5)
    one = np.load(tmp_path / "candidates.npz")["x"][:1]
    np.savez(tmp_path / "candidates.npz", x=np.repeat(one, 50, axis=0))
    for name in ("deployment", "evaluation"):
        samples = rng.standard_normal((200, 16)).astype(np.float32)
        np.savez(tmp_path / f"{name}.npz", x=samples)
    config.write_text(config.read_text() + DEPLOYMENT + DEPLOYMENT.replace(
        "deployment", "evaluation"))  # fmt: skip
    options = ("-c", str(config), "--set", "set.samples=50")
    assert asked(capsys, "prepare", *options)[0] == 0
    status, tree = asked(capsys, "build-set", *options)
    assert status == 1 and tree["verdict"] == "fail"
    report = json.loads((tmp_path / "run" / "10_set" / "drift.json").read_text())
    assert report["counts"]["calibration_duplicates"] == 49
    assert report["counts"]["calibration_effective"] == 1
    assert any("49 of 50" in reason for reason in report["reasons"])


def test_candidates_taken_from_the_evaluation_data_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # C29: all twenty evaluation samples are candidates as well.
    config = write_project(tmp_path)
    candidates = np.load(tmp_path / "candidates.npz")["x"]
    np.savez(tmp_path / "evaluation.npz", x=candidates[:20])
    config.write_text(config.read_text() + DEPLOYMENT.replace("deployment", "evaluation"))
    options = ("-c", str(config), "--set", "set.evaluation_samples=20", "--set", "set.samples=8")
    assert asked(capsys, "prepare", *options)[0] == 0
    asked(capsys, "build-set", *options)
    report = json.loads((tmp_path / "run" / "10_set" / "drift.json").read_text())
    assert any("equal evaluation samples" in reason for reason in report["reasons"])
    # None of them is calibrated with.
    assert not set(drawn(tmp_path)) & set(range(20))


def test_ranges_that_depend_on_the_subset_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # C26: a few samples in a hundred reach far, so a subset has some of them or has not.
    config = write_project(tmp_path)
    rng = np.random.default_rng(8)
    steady = rng.uniform(-1, 1, (400, 16)).astype(np.float32)
    tailed = steady * np.where(rng.random((400, 1)) < 0.02, 40, 1).astype(np.float32)
    found = dict[str, dict[str, Any]]()
    for name, samples in (("steady", steady), ("tailed", tailed)):
        np.savez(tmp_path / "candidates.npz", x=samples)
        options = ("-c", str(config), "--set", "set.samples=128")
        for command in ("prepare", "build-set", "calibrate"):
            assert asked(capsys, command, *options)[0] in (0, 1)
        path = tmp_path / "run" / "20_ranges" / "stability.json"
        found[name] = json.loads(path.read_text())
    (steady_row,) = [row for row in found["steady"]["rows"] if row["tensor"] == "x"]
    (tailed_row,) = [row for row in found["tailed"]["rows"] if row["tensor"] == "x"]
    assert found["tailed"]["sizes"] == [8, 16, 32, 64]
    # 32 samples hold one of the far ones in about half of all draws: the width is 1 or 40 parts.
    assert tailed_row["spreads"][2] > 0.5 and tailed_row["enough"] is None
    assert steady_row["spreads"][2] < 0.05 and steady_row["enough"] is not None
    assert found["tailed"]["reasons"] and "first" in found["tailed"]["reasons"][0]


def test_watch_fails_where_the_model_makes_nan_and_leaves_out_records_that_hold_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_project(tmp_path)
    add_deployment(config, scale=1.0)
    rng = np.random.default_rng(4)
    np.savez(tmp_path / "candidates.npz", x=rng.normal(size=(120, 16)).astype(np.float32))
    options = ("-c", str(config), "--set", "set.samples=60")
    for command in ("prepare", "build-set", "calibrate"):
        assert asked(capsys, command, *options)[0] == 0
    served = rng.normal(size=(150, 16)).astype(np.float32)
    for name, value, left in (("overflow", 3e38, 0), ("nan", np.nan, 1)):
        now = served.copy()
        now[7] = value  # one sample of 150, which no test of ranks would tell
        np.savez(tmp_path / f"{name}.npz", x=now)
        source = ("--source", f"npz:{tmp_path / f'{name}.npz'}")
        status, tree = asked(capsys, "watch", *options, *source)
        assert tree["samples"] == 150 - left
        rows = {row["tensor"]: row for row in tree["coverage"]["rows"]}
        if left:
            assert status == 0 and all(row["nonfinite"] == 0 for row in rows.values())
            assert "1 left out, empty or not finite: deployment[7]" in tree["source"]
            (found,) = [x for x in tree["hygiene"]["findings"] if x["kind"] == "not-finite"]
            assert found["samples"] == ["deployment[7]"]
        else:
            assert status == 1 and tree["coverage"]["verdict"] == "fail"
            assert rows["x"]["nonfinite"] == 0 < rows["r0"]["nonfinite"]
            assert any("NaN or Inf on the deployment" in x for x in tree["reasons"])
            assert not any(x.rstrip().endswith(" in") for x in tree["reasons"])


def test_a_set_of_one_language_fails_for_traffic_of_another() -> None:
    # C31: English calibration, Chinese service, by the features of the texts alone.
    english = [
        "the",
        "model",
        "reads",
        "what",
        "people",
        "write",
        "and",
        "answers",
        "in",
        "its",
        "own",
        "words",
        "every",
        "day",
    ]
    signs = "的一是了我不人在他有这个上们来到时大地为子中你说生国年着就那和要她出也得里后自以会"
    rng = np.random.default_rng(9)

    def texts(words: Sequence[str], space: str, count: int) -> list[str]:
        return [space.join(rng.choice(list(words), rng.integers(30, 60))) for _ in range(count)]

    def features(lines: list[str], name: str) -> FeatureTable:
        infos = tuple(SampleInfo(id=f"{name}[{i}]", digest=line) for i, line in enumerate(lines))
        return Extractor(())(Batch(infos, (), [{}] * len(lines), [{"text": x} for x in lines]))

    production = features(texts(signs, "", 150), "d")
    profile = make_profile(production, len(production.names))
    same = drift_report(features(texts(signs, "", 64), "c"), profile, seed=0)
    other = drift_report(features(texts(english, " ", 64), "c"), profile, seed=0)
    assert same.verdict == "pass"
    failed = {row.feature for row in other.features if row.verdict == "fail"}
    assert other.verdict == "fail" and {"text.script", "text.non_ascii"} <= failed
