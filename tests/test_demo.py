"""The demo's job on a smaller set: real model, real text, all stages, killed on the way."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.ascend import fake_atc
from tests.run_files import contents

CONFIG = Path(__file__).parents[1] / "calibration_sets/minilm_wikipedia/quantflow.toml"
SMALL = (
    "--limit", "16",
    "--set", "set.pool_samples=48", "--set", "set.deployment_samples=48",
    "--set", "plan.samples=8", "--set", "budget.cosine_mean=0.99",
    "--set", "optimize.shift=false", "--set", "optimize.smoothing=false",
    "--set", "optimize.rounding=false", "--set", "optimize.bias_correction=false",
    "--set", "runtime.threads=1",  # another process tests beside it
)  # fmt: skip


def command(directory: Path) -> list[str]:
    run = f'run.directory="{directory}"'
    arguments = ["run", "-q", "--config", str(CONFIG), "--set", run, *SMALL]
    return [sys.executable, "-m", "quantflow", *arguments]


def finish(directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(directory), capture_output=True, text=True, check=False, timeout=600
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; 3 is the exit code where there is no atc."""
    directory = tmp_path_factory.mktemp("demo") / "run"
    done = finish(directory)
    assert done.returncode == 3, done.stdout[-3000:] + done.stderr[-3000:]
    return directory


def summary(directory: Path) -> dict[str, Any]:
    return json.loads((directory / "summary.json").read_text())


def test_the_summary_has_what_the_readme_lists(demo: Path) -> None:
    found = summary(demo)
    assert found["verdict"] in ("pass", "warn")
    assert found["om"] == {"status": "not-converted"}
    assert set(found["fidelity"]) == {"fp16", "int8"}
    assert set(found["task"]) == {"fp32", "fp16", "int8"}
    assert found["plan"]["verified"] is True
    assert found["drift"]["verdict"] in ("pass", "warn")
    for line in readme_keys():
        node: Any = found
        for part in line.split("."):
            assert part in node, line
            node = node[part]


def readme_keys() -> list[str]:
    """The plain keys of the README's table on summary.json."""
    text = (CONFIG.parents[2] / "README.md").read_text()
    table = text.partition("## summary.json")[2].partition("\n\nTimes")[0]
    names = [
        name.strip("` ")
        for row in table.splitlines()
        if row.startswith("| `") and "{" not in row
        for name in row.split("|")[1].split(",")
    ]
    assert "verdict" in names and "om.status" in names
    return names


def test_int8_is_close_to_fp32_and_fp16_closer(demo: Path) -> None:
    found = summary(demo)["fidelity"]
    assert found["int8"]["cosine_mean"] >= 0.992
    assert found["fp16"]["cosine_mean"] >= 0.99999


def test_the_deploy_file_computes_what_its_twin_does(demo: Path) -> None:
    deploy = summary(demo)["deploy"]
    assert deploy["parity_cosine"] >= 0.99999
    assert deploy["fidelity_gap"] <= 0.001
    assert {"AscendQuant", "AscendDequant"} <= set(deploy["op_types"])
    assert not {op for op in deploy["op_types"] if "QuantizeLinear" in op or "Integer" in op}


def test_the_deploy_file_is_what_the_dialect_asks_for(demo: Path) -> None:
    (path,) = (demo / "50_om").glob("deploy_*.onnx")
    model = onnx.load(path)
    assert [(x.domain, x.version) for x in model.opset_import] == [("", 18)]
    names = [node.name for node in model.graph.node]
    assert len(set(names)) == len(names) and "" not in names
    for node in model.graph.node:
        kinds = {a.name: onnx.AttributeProto.AttributeType.Name(a.type) for a in node.attribute}
        if node.op_type == "AscendQuant":
            assert kinds == {"scale": "FLOAT", "offset": "FLOAT", "dst_type": "STRING"}
        if node.op_type == "AscendDequant":
            assert kinds == {"dtype": "INT"}
    for value in (*model.graph.input, *model.graph.output):
        assert all(dim.dim_value > 0 for dim in value.type.tensor_type.shape.dim)


def test_no_fp16_overflow_is_found_in_a_model_that_has_none(demo: Path) -> None:
    report = json.loads((demo / "20_ranges/fp16.json").read_text())
    assert report["islands"] == []
    absmax = [float(tensor["absmax"]) for tensor in report["tensors"]]
    assert len(absmax) > 200 and np.isfinite(absmax).all()


def test_a_second_run_changes_nothing_and_says_so(demo: Path) -> None:
    before = contents(demo)
    done = finish(demo)
    assert "nothing changed" in done.stdout
    assert contents(demo) == before


@pytest.mark.slow
def test_a_run_killed_at_random_moments_ends_in_the_same_bytes(demo: Path, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    rng = random.Random(0)
    for _ in range(3):
        process = subprocess.Popen(
            command(directory), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        time.sleep(rng.uniform(2, 12))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert finish(directory).returncode == 3
    assert contents(directory) == contents(demo)


@pytest.mark.slow
def test_the_drift_gate_refuses_code_for_prose(tmp_path: Path) -> None:
    config = CONFIG.with_name("code.toml")
    run = f'run.directory="{tmp_path / "run"}"'
    base = [sys.executable, "-m", "quantflow"]
    rest = ["-q", "--config", str(config), "--set", run, *SMALL[:6]]
    assert subprocess.run([*base, "prepare", *rest], check=False).returncode == 0
    done = subprocess.run([*base, "build-set", *rest], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "text." in done.stdout


def test_the_hand_over_folder_converts_wherever_it_is_moved(demo: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(demo / "50_om", tmp_path / "moved"))
    bare = tmp_path / "bare"
    fake_atc.install(bare, "good")
    (bare / "python3").symlink_to(sys.executable)
    done = subprocess.run(
        [shutil.which("env") or "env", "-i", f"PATH={bare}", "python3", folder / "convert.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((folder / "result.json").read_text())["conversions"]
    assert [row["kind"] for row in rows] == ["int8", "fp16", *["probe"] * 5]
    assert all((folder / row["om"]).is_file() for row in rows)
