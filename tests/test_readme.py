"""The README is executed: every command in it, in order, on a copy of the project (C37).

A line ``NAME`:`` before a code block makes the block a file; ``sh`` blocks are commands. `make
demo` and `make test` are left out: the demo's job runs in test_demo.py on a smaller set, and the
tests are what is running.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAKE = ("MAKE", "MFLAGS", "ARGS")
LEFT_OUT = ("make demo", "make test", "make bench", "make env", "make check", "make clean")
BLOCK = re.compile(r"(?:^`(?P<file>[\w./]+)`[^\n]*:\n\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$",
                   re.MULTILINE | re.DOTALL)  # fmt: skip


def readme_steps() -> list[tuple[str, str]]:
    """Files (name, text) and commands ("$", line) in the order of the README."""
    steps = list[tuple[str, str]]()
    for match in BLOCK.finditer((ROOT / "README.md").read_text()):
        if match["file"]:
            steps.append((match["file"], match["text"]))
        elif match["kind"] == "sh":
            steps += [("$", line) for line in match["text"].splitlines() if line.strip()]
    return steps


def test_the_readme_has_the_two_commands_that_do_all_the_set_up() -> None:
    commands = [text for kind, text in readme_steps() if kind == "$"]
    assert commands[:2] == ["make demo", "make test"]


def test_every_command_of_the_readme_runs_as_it_says(tmp_path: Path) -> None:
    project = copy_of_the_project(tmp_path)
    # What `make test ARGS=...` was told is not for the README's own calls of make.
    own = {name: value for name, value in os.environ.items() if not name.startswith(MAKE)}
    environment = {**own, "VENV": sys.prefix, "HF_HUB_OFFLINE": "1"}
    for kind, text in readme_steps():
        if kind != "$":
            (project / kind).write_text(text)
            continue
        command, _, comment = text.partition("  #")
        if command.startswith(LEFT_OUT):
            continue
        expected = int(found[1]) if (found := re.search(r"exit code (\d)", comment)) else 0
        command = command.replace(".venv/bin/", f"{sys.prefix}/bin/")
        # The environment is the one that runs this, and is not built anew for the copy.
        make = f"make -o {sys.prefix}/.ready VENV={sys.prefix} "
        command = re.sub(r"^make ", make, command)
        done = subprocess.run(
            command, shell=True, cwd=project, env=environment, capture_output=True, text=True,
            timeout=600, check=False,
        )  # fmt: skip
        # make turns the exit status of a command that failed into its own 2.
        allowed = {expected, 2} if expected and command.startswith("make ") else {expected}
        assert done.returncode in allowed, f"{text}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"


def copy_of_the_project(directory: Path) -> Path:
    """Everything but the environment and results, with the files' times kept for make."""
    project = directory / "project"
    ignored = shutil.ignore_patterns(
        ".venv", ".git", "runs", "*.egg-info", "__pycache__", ".*_cache"
    )
    shutil.copytree(ROOT, project, ignore=ignored)
    return project
