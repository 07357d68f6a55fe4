"""Asks a program for a little text, with limits on time and size. Its answer is not trusted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Final

TIME_LIMIT_S: Final = 10.0
LARGEST_ANSWER: Final = 256 * 1024
"""Bytes of output that are read."""

_GRACE_S: Final = 1.0


def ask_program(
    command: Sequence[str], environ: Mapping[str, str], time_limit_s: float = TIME_LIMIT_S
) -> str:
    """What a program prints, whatever its exit code; empty when it fails to start or to end.

    It runs in the root directory, without input and in a process group of its own, all of which is
    ended afterwards.

    Args:
        command: path of the program, and its arguments.
        environ: its environment variables.
        time_limit_s: seconds it may take.
    """
    try:
        process = subprocess.Popen(
            command,
            cwd="/",
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError):
        return ""
    assert process.stdout is not None
    answers = list[bytes]()
    reader = threading.Thread(target=_read, args=(process.stdout, answers), daemon=True)
    reader.start()
    try:
        reader.join(time_limit_s)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        # One that waits in the driver does not even end now.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
    return answers[0].decode("utf-8", "replace") if answers else ""


def _read(stream: IO[bytes], answers: list[bytes]) -> None:
    with contextlib.suppress(OSError, ValueError), stream:
        answers.append(stream.read(LARGEST_ANSWER))
