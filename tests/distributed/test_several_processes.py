"""The commands as several processes: the same bytes, one voice, one exit status, no hang."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from quantflow.__main__ import main
from quantflow.runtime.distributed import LEAVE_S
from tests.cli.tiny_project import write_project
from tests.graph.blocks import WIDTH
from tests.graph.masked_blocks import MASK_NAME, masked_encoder
from tests.run_files import contents
from tests.sensitivity.projects import write_project as write_encoder

DEADLINE_S = 60
RANGES = Path("run", "20_ranges")
BROKEN = Path(__file__).with_name("broken_worker.py")

RAGGED = f"""
import numpy as np

def samples():
    rng = np.random.default_rng(0)
    for length in rng.integers(2, 6, 60):
        x = rng.normal(size=(length, {WIDTH})).astype("float32")
        mask = (np.arange(length) < rng.integers(1, length + 1)).astype("int64")
        yield {{"x": x, "{MASK_NAME}": mask}}
"""


def _files(directory: Path) -> dict[str, bytes]:
    return contents(directory, "report.html")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples of four lengths and 20_ranges by one process."""
    directory = tmp_path_factory.mktemp("ragged")
    config = write_encoder(directory, masked_encoder(1), {}, {"batch": 2, "length": 6})
    (directory / "ragged.py").write_text(RAGGED)
    text = config.read_text().replace('kind = "npz"', 'kind = "function"')
    text = text.replace('path = "candidates.npz"', 'function = "ragged:samples"')
    text = text.replace("threads = 1", "batch = 3").replace('"minmax"', '"auto"')
    config.write_text("[run]\ndirectory = 'run'\n" + text)
    for command in ("prepare", "build-set", "calibrate"):
        assert main([command, "-c", str(config), "-q"]) == 0
    return directory


@pytest.fixture
def copy(project: Path, tmp_path: Path) -> Path:
    """A project of the same content, whose ranges are still to be made."""
    shutil.copytree(project, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / RANGES)
    return tmp_path / "copy"


@pytest.fixture
def port(socket_enabled: None) -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _torchrun(*arguments: str | Path, directory: Path, **more: str):
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    return subprocess.run(
        [*launch, *map(str, arguments)],
        cwd=directory,
        env=_environment(more),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    root = Path(__file__).parents[2]
    return {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", **more}


def _workers(
    port: int, count: int, command: Sequence[str], directory: Path, **more: str
) -> list[tuple[int, str, str]]:
    """Exit status, stdout and stderr of every worker, started one by one without torchrun."""
    place = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    running = [
        subprocess.Popen(
            [sys.executable, *command],
            cwd=directory,
            env=_environment(
                {"RANK": str(rank), "LOCAL_RANK": str(rank), **place, **where, **more}
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    try:
        texts = [process.communicate(timeout=DEADLINE_S) for process in running]
    finally:
        for process in running:
            process.kill()
    return [(p.returncode, *text) for p, text in zip(running, texts, strict=True)]


def test_torchrun_gives_the_bytes_of_one_process_and_speaks_once(project: Path, copy: Path) -> None:
    done = _torchrun("-m", "quantflow", "calibrate", directory=copy)
    assert done.returncode == 0, done.stderr
    assert _files(copy / RANGES) == _files(project / RANGES)
    assert done.stdout.count("DONE 20_ranges") == 1
    assert done.stderr.count("calibration samples: 12/12") == 1


def test_a_whole_run_gives_the_bytes_of_one_process(tmp_path: Path, port: int) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        config = write_project(tmp_path / name)
        # One batch holds all, so that the second worker has none.
        config.write_text(config.read_text() + "[runtime]\nbatch = 16\n")
    path = {"PATH": str(tmp_path)}  # without atc
    assert main(["run", "-c", str(tmp_path / "one" / "quantflow.toml"), "-q"]) == 3
    done = _workers(port, 2, ["-m", "quantflow", "run"], tmp_path / "two", **path)
    assert [code for code, _, _ in done] == [3, 3], done
    assert "NOT CONVERTED" in done[0][1] and done[1][1:] == ("", "")
    assert _files(tmp_path / "one" / "run") == _files(tmp_path / "two" / "run")


def test_what_stops_a_worker_is_said_by_the_leader_and_ends_all(copy: Path, port: int) -> None:
    command = [str(BROKEN), "calibrate", "-q"]
    done = _workers(port, 2, command, copy, WORKER_1="problem")
    assert [code for code, _, _ in done] == [2, 2], done
    assert "QF501" in done[0][2] and "where: worker 1: here" in done[0][2]
    assert done[1][1:] == ("", "")
    assert not (copy / RANGES).exists()


def test_ctrl_c_ends_all_at_once_and_is_said_once(copy: Path, port: int) -> None:
    command = [str(BROKEN), "calibrate", "-q"]
    done = _workers(port, 2, command, copy, WORKER_1="interrupt")
    interrupted = [(copy / f"interrupted_{rank}").stat().st_mtime for rank in (0, 1)]
    assert time.time() - max(interrupted) < LEAVE_S
    assert [code for code, _, _ in done] == [130, 130], done
    assert done[0][2].count("interrupted; ") == 1 and done[1][1:] == ("", "")
    assert not (copy / RANGES).exists()


def test_a_killed_worker_ends_all(copy: Path) -> None:
    done = _torchrun(BROKEN, "calibrate", "-q", directory=copy, WORKER_1="kill")
    assert done.returncode == 1
    assert not (copy / RANGES).exists()
