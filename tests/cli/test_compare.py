"""`quantflow compare A B`: exit codes, tables and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from quantflow.artifacts.side_by_side import SideBySide
from quantflow.graph.model_io import save_model
from tests.cli.conftest import Call
from tests.evaluation.exported_encoder import (
    PLAIN,
    array_of,
    deploy_of,
    export_encoder,
    give_array,
    node_called,
)
from tests.runtime.om_standins import put_on_path
from tests.sensitivity.projects import encoder_project


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_encoder(tmp_path_factory.mktemp("encoder"), blocks=1)


def spoiled(config: Path, directory: Path) -> Path:
    deploy = deploy_of(config)
    norm = node_called(deploy, "n_N0")
    give_array(norm, 1, array_of(norm, 1) * np.float32(np.nan))
    path = directory / "spoiled.onnx"
    save_model(deploy, path)
    return path


def test_two_sides_that_agree_pass(config: Path, call: Call) -> None:
    answer = call("compare", "fp32", "int8", "-c", config, "--limit", "4", "-q")
    assert answer.code == 0, answer.err
    assert "int8 against fp32" in answer.out and "n_A0o" in answer.out
    assert "4 samples in bucket batch2_length6" in answer.out
    assert answer.out.splitlines()[-1] == "PASSED int8 against fp32"


def test_a_run_made_with_a_limit_is_compared_with_the_same_one(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = encoder_project(tmp_path, 1, more=PLAIN)
    assert call("run", "-c", config, "--limit", "8", "-q").code == 3  # no atc
    pair = ("compare", "fp32", "int8", "-c", config, "-q")
    answer = call(*pair, "--limit", "8", "--json")
    assert answer.code == 0 and answer.json["samples"] == 8, answer.err
    for other in ((), ("--limit", "7")):
        answer = call(*pair, *other)
        assert answer.code == 2 and "QF407" in answer.err and "another --limit" in answer.err
    put_on_path(monkeypatch)
    answer = call("compare", "--runner", "om", "-c", config, "-q", "--limit", "8")
    assert answer.code == 2 and "QF401" in answer.err  # the run is right, and has no .om
    assert "QF407" in call("compare", "--runner", "om", "-c", config, "-q").err


def test_a_fault_fails_and_is_named_first(config: Path, call: Call, tmp_path: Path) -> None:
    path = spoiled(config, tmp_path)
    answer = call("compare", "fp16", path, "-c", config, "--limit", "4", "-q", "--rows", "3")
    assert answer.code == 1, answer.err
    assert "first beyond: n_N0" in answer.out.splitlines()[-1]
    assert "First place beyond its threshold" in answer.out and "NaN, Inf" in answer.out
    table = answer.out.split("First place")[0]
    assert "N0" in table and "n_A0q" not in table  # what is not finite comes first
    assert "fail: block 'N0': values that are NaN or Inf" in answer.out


def test_json_and_the_record_on_disk_are_the_same(config: Path, call: Call, tmp_path: Path) -> None:
    path, output = spoiled(config, tmp_path), tmp_path / "new" / "found.json"
    answer = call("compare", "fp32", path, "-c", config, "--json", "-q", "-o", output)
    assert answer.code == 1
    assert answer.json["first_beyond"]["node"] == "n_N0"
    assert answer.json["verdict"] == "fail" and answer.json["samples"] == 10
    assert answer.json == json.loads(output.read_text())
    assert SideBySide.read(output).other.kind == "int8"


def test_thresholds_are_options(config: Path, call: Call) -> None:
    usual = ("compare", "fp32", "int8", "-c", config, "--limit", "4", "-q")
    assert call(*usual, "--output-cosine", "0.9999999").code == 1
    assert call(*usual, "--layer-cosine", "0.9999999").code == 1
    assert call(*usual, "--output-error", "0.000001").code == 1
    assert call(*usual, "--output-error", "1").code == 0


def test_two_directories_need_no_configuration(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, scale in (("one", 1.0), ("same", 1.0), ("other", 1.1)):
        (tmp_path / name).mkdir()
        x = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
        np.save(tmp_path / name / "layer.0.npy", x * np.float32(scale))
    assert call("compare", "one", "same", "-q").code == 0
    answer = call("compare", "one", "other", "-q", "--json", "-o", "found.json")
    assert answer.code == 1 and answer.json["first_beyond"]["point"] == "layer.0"
    assert json.loads((tmp_path / "found.json").read_text()) == answer.json
    (tmp_path / "other" / "layer.0.npy").write_bytes(b"")
    answer = call("compare", "one", "other", "-q")
    assert answer.code == 2 and "QF341" in answer.err and "layer.0.npy" in answer.err


def test_two_directories_are_put_in_the_order_of_a_configuration_s_graph(
    config: Path, call: Call, tmp_path: Path
) -> None:
    for name, scale in (("one", 0.0), ("two", 1.0)):
        (tmp_path / name).mkdir()
        # The graph computes F0d after A0o; by name it comes first.
        for seed, (file, noise) in enumerate((("n_A0o", 0.1), ("F0d", 0.9))):
            rng = np.random.default_rng(seed)
            x, off = rng.normal(size=(4, 6)), rng.normal(size=(4, 6)) * noise * scale
            np.save(tmp_path / name / f"{file}.npy", x + off)
    pair = ("compare", tmp_path / "one", tmp_path / "two", "-q")
    answer = call(*pair, "-c", config)
    assert answer.code == 1 and answer.out.splitlines()[-1].endswith("| first beyond: n_A0o")
    assert "First place beyond" in answer.out and "order unknown" not in answer.out
    elsewhere = call(*pair, "-c", config, "--set", f"run.directory={tmp_path / 'none'}")
    assert elsewhere.out.splitlines()[-1].endswith("| order unknown; worst: F0d")
    assert "note: order unknown: " in elsewhere.out and "last within" not in elsewhere.out
    missing = call(*pair, "-c", tmp_path / "none.toml")
    assert missing.code == 2 and "none.toml" in missing.err


@pytest.mark.parametrize(("arguments", "code", "word"), [
    (["fp32"], "QF109", "one side alone"),
    (["fp32", "in8"], "QF107", "did you mean 'int8'"),
    (["fp32", "none.onnx"], "QF107", "no such file"),
    (["fp32", "int8", "--force"], "QF109", "--force"),
    (["fp32", "int8", "--dry-run"], "QF109", "--dry-run"),
    (["--samples", "x.npz", "--repeat", "3"], "QF109", "--samples, --repeat"),
    (["fp32", "int8", "--samples", "none.npz"], "QF302", "none.npz"),
])  # fmt: skip
def test_wrong_usage_is_refused_in_words(
    config: Path, call: Call, arguments: list[str], code: str, word: str
) -> None:
    answer = call("compare", *arguments, "-c", config, "-q")
    assert answer.code == 2 and code in answer.err and word in answer.err, answer.err


def test_a_run_that_is_not_exported_says_which_command_to_run(
    config: Path, call: Call, tmp_path: Path
) -> None:
    directory = f"run.directory={tmp_path / 'none'}"
    answer = call("compare", "fp32", "int8", "-c", config, "--set", directory, "-q")
    assert answer.code == 2 and "QF404" in answer.err and "quantflow export-onnx" in answer.err


def test_without_sides_it_is_the_stage(config: Path, call: Call) -> None:
    answer = call("compare", "-c", config, "--dry-run", "-q")
    assert answer.code == 0 and "45_compare" in answer.out


def test_the_record_does_not_take_the_place_of_a_side(call: Call, tmp_path: Path) -> None:
    sides = tmp_path / "one", tmp_path / "two"
    for side in sides:
        side.mkdir()
        np.save(side / "a.npy", np.ones((2, 3), np.float32))
    for output in (sides[0] / "a.npy", sides[1] / "new.json"):
        answer = call("compare", *sides, "--output", output)
        assert answer.code == 3 and "QF604" in answer.err
    assert np.load(sides[0] / "a.npy").shape == (2, 3)
