import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from quantflow.cli.app import STAGE_COMMANDS, app

MODEL_LIBRARIES = ("torch", "onnx", "onnx_ir", "onnxscript", "scipy", "datasets", "matplotlib")
TORCH_PROJECT = """
[model]
factory = "mine:build"
outputs = ["y"]
[model.inputs.x]
shape = ["batch", 16]
[set.candidates]
kind = "npz"
path = "candidates.npz"
"""

HEAVY = ("torch", "onnx", "onnx_ir", "onnxruntime", "numpy", "scipy", "rich", "matplotlib")


def test_help_imports_nothing_heavy() -> None:
    code = f"""
import sys
from quantflow.__main__ import main
assert main(["--help"]) == 0 and main(["run", "--help"]) == 0
print(sorted(set({HEAVY!r}) & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_run_with_nothing_to_do_imports_no_model_library(tmp_path: Path) -> None:
    config = tmp_path / "quantflow.toml"
    config.write_text(TORCH_PROJECT)
    (tmp_path / "mine.py").write_text("def build(): raise AssertionError\n")
    np.savez(tmp_path / "candidates.npz", x=np.zeros((4, 16), np.float32))
    code = f"""
import sys
from quantflow.__main__ import main
assert main(["run", "-c", {str(config)!r}, "--dry-run"]) == 0
from quantflow.config import load_config
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.stages.pipeline import STAGES
from quantflow.stages.stage import Context
from quantflow.stages.summary import refresh_summary
from pathlib import Path
loaded = load_config(Path({str(config)!r}))
context = Context(loaded, RunDirectory(loaded.run_directory))
for stage in STAGES:
    assert stage.inputs(context)
refresh_summary(context.run)
print(sorted(set({MODEL_LIBRARIES!r}) & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_takes_little_beside_the_libraries_it_draws_with() -> None:
    # 0.3 s at most where these take 0.17 s, and as much more where the machine is slower.
    for _ in range(15):  # a busy machine takes longer, now and then
        libraries = _processor_seconds("-c", "import typer, rich.console")
        if _processor_seconds("-m", "quantflow", "--help") < 1.75 * libraries:
            return
    pytest.fail("not once in 15 times")


def _processor_seconds(*arguments: str) -> float:
    """What one process of Python takes: unlike the clock's, not with others on the machine."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_commands_are_listed_in_the_order_of_the_pipeline() -> None:
    from quantflow.stages.pipeline import STAGES

    assert [folder for folder, _ in STAGE_COMMANDS.values()] == [x.folder for x in STAGES]
    assert [f"quantflow {name}" for name in STAGE_COMMANDS] == [x.command for x in STAGES]


@pytest.mark.parametrize("command", [x.name for x in app.registered_commands])
def test_every_help_has_an_example(command: str | None) -> None:
    from typer.testing import CliRunner

    registered = {x.name or getattr(x.callback, "__name__", ""): x for x in app.registered_commands}
    names = [command] if command else [name for name in registered if name != "command"]
    for name in names:
        result = CliRunner().invoke(app, [name, "--help"])
        assert result.exit_code == 0
        assert f"quantflow {name}" in result.output.split("Examples:")[1]
