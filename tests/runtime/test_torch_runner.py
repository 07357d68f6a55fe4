"""Torch modules behind the runner protocol; devices that are not there are refused in words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from quantflow.errors import QuantflowError
from quantflow.runtime.torch_runner import TorchRunner

torch = pytest.importorskip("torch")


def affine() -> object:
    class Affine(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dropout = torch.nn.Dropout(0.9)

        def forward(self, x: object, y: object) -> object:
            return self.dropout(2 * x + y), [x - y]  # type: ignore[operator]

    return Affine()


def test_inputs_go_by_name_in_the_order_of_forward_and_dropout_is_off() -> None:
    runner = TorchRunner(affine(), ("x", "y"), ("sum", "difference"))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y = np.ones((2, 3), np.float32)
    found = runner.run({"y": y, "x": x})  # in another order
    np.testing.assert_array_equal(found["sum"], 2 * x + y)
    np.testing.assert_array_equal(found["difference"], x - y)
    assert runner.outputs == ("sum", "difference")


def test_another_number_of_tensors_than_names_is_refused() -> None:
    with pytest.raises(QuantflowError, match="QF203"):
        TorchRunner(affine(), ("x", "y"), ("sum",)).run(
            {"x": np.ones(2, np.float32), "y": np.ones(2, np.float32)}
        )


@pytest.mark.parametrize("device", ["cuda:63", "warp:0", ""])
def test_a_device_that_is_not_there_is_one_coded_error(device: str) -> None:
    with pytest.raises(QuantflowError) as caught:
        TorchRunner(affine(), ("x", "y"), ("sum", "difference"), device)
    (problem,) = caught.value.problems
    assert problem.code == "QF622" and repr(device) in problem.what
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "torch_npu is not installed"),
        ('raise SyntaxError("odd")', "odd"),
        ('raise ImportError("libhccl.so: cannot open shared object file")', "libhccl.so"),
    ],
)
def test_an_npu_without_torch_npu_or_cann_is_one_sentence(
    tmp_path: Path, content: str | None, said: str
) -> None:
    # C44, in a process of its own since a failed import leaves traces.
    if content is not None:
        (tmp_path / "torch_npu.py").write_text(content + "\n")
    code = (
        "from quantflow.errors import QuantflowError\n"
        "from quantflow.runtime.torch_runner import TorchRunner\n"
        "import torch\n"
        "try: TorchRunner(torch.nn.Identity(), ('x',), ('y',), 'npu:0')\n"
        "except QuantflowError as error: print(error)\n"
    )
    path = f"{tmp_path}:{Path(__file__).parents[2]}"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "QF603" in done.stdout and said in done.stdout, done.stderr
    assert ("TORCH_DEVICE_BACKEND_AUTOLOAD=0" in done.stdout) == (content is not None)
    assert "torch cannot be imported" not in done.stdout
