"""A whole run of a tiny model, killed at random moments; test_demo kills one of a real model."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.cli.tiny_project import write_project
from tests.run_files import contents

NO_ATC = 3


def start(config: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "quantflow", "run", "-q", "-c", str(config)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PATH": str(config.parent)},
    )


def test_a_run_killed_at_random_moments_ends_in_the_same_bytes(tmp_path: Path) -> None:
    projects = [tmp_path / "whole", tmp_path / "killed"]
    for project in projects:
        project.mkdir()
    whole, killed = (write_project(project) for project in projects)
    began = time.monotonic()
    assert start(whole).wait() == NO_ATC
    seconds = time.monotonic() - began
    rng = random.Random(0)
    for _ in range(3):
        process = start(killed)
        time.sleep(rng.uniform(0.3, 1.0) * seconds)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert start(killed).wait() == NO_ATC
    assert contents(projects[1] / "run") == contents(projects[0] / "run")
