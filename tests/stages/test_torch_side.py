"""`compare fp32 B --runner torch`: the factory's module stands for fp32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quantflow.__main__ import main
from quantflow.artifacts.side_by_side import SideBySide
from quantflow.errors import QuantflowError
from quantflow.stages.runner_sides import compare_torch
from quantflow.stages.side_by_side import Asked
from tests.sensitivity.projects import context_of, run_until

pytest.importorskip("torch")

NET = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.drop = torch.nn.Linear(8, 16), torch.nn.Dropout(0.5)
        self.second = torch.nn.Linear(16, 4)

    def forward(self, x, shift):
        return self.second(self.drop(torch.relu(self.first(x)))) - shift


def make():
    torch.manual_seed(0)
    return Net()
"""

CONFIG = """
[model]
factory = "torch_side_net:make"
outputs = ["y"]
[model.inputs.x]
shape = ["batch", 8]
[model.inputs.shift]
shape = ["batch", 4]
[target]
buckets = [{ batch = 2 }]
[set]
samples = 12
heldout_samples = 10
evaluation_samples = 9
[set.candidates]
kind = "npz"
path = "candidates.npz"
[plan]
policy = "none"
[optimize]
shift = false
smoothing = false
rounding = false
bias_correction = false
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("torch_side")
    (directory / "torch_side_net.py").write_text(NET)
    rng = np.random.default_rng(0)
    arrays = {"x": rng.normal(size=(40, 8)), "shift": rng.normal(size=(40, 4))}
    np.savez(
        directory / "candidates.npz",
        allow_pickle=False,
        **{name: array.astype(np.float32) for name, array in arrays.items()},
    )
    path = directory / "quantflow.toml"
    path.write_text(CONFIG)
    run_until("40_onnx", path)
    return path


def test_the_module_is_what_was_exported(config: Path) -> None:
    # The int8 side, so that one is onnxruntime's; then fp32 of an ONNX file against the module.
    found = compare_torch(context_of(config), ["fp32", "int8"], Asked(), "cpu")
    assert found.reference.ran_on == "torch, cpu" and not found.other.ran_on
    assert found.samples == 9 and found.verdict == "pass"
    folder = config.parent / "run" / "40_onnx"
    twin = next(path for path in folder.glob("*.onnx") if "float" in path.name)
    found = compare_torch(context_of(config), ["fp32", str(twin)], Asked(), "cpu")
    (output,) = (point for point in found.points if point.kind == "output")
    assert output.cosine == pytest.approx(1, abs=1e-12) and output.max_abs_error < 1e-6
    assert output.reference_absmax > 0.1


def test_the_command_says_what_ran_where(
    config: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["compare", "fp32", "int8", "--runner", "torch", "-c", str(config), "-q"]
    assert main([*words, "-o", str(tmp_path / "found.json")]) == 0
    assert "fp32 ran on torch, cpu." in " ".join(capsys.readouterr().out.split())
    found = SideBySide.read(tmp_path / "found.json")
    assert found.latency is None and found.probes == ()


def test_a_device_that_is_not_there_ends_it(config: Path) -> None:
    with pytest.raises(QuantflowError, match="QF622"):
        compare_torch(context_of(config), ["fp32", "int8"], Asked(), "cuda:63")
