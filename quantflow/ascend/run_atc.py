"""Runs atc, which writes everything to stdout, and notes what it says.

Travels with the hand-over folder, so: Python 3.7 and the standard library only.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from .error_hints import error_codes, tells_an_error
from .interrupts import Stop
from .om_check import is_plain_file
from .output_lines import lines_until, output_log

SUCCESS_LINE = "ATC run success"
QUOTED_CHARACTERS = 300
"""Of atc's first error line."""
LOOKED_AT = 4000
"""Characters of a line that are looked at; the log has all."""
KEPT_LINES = 50
"""Lines that tell errors, and those that follow them, kept in memory; the log has all."""
FOLLOWING_LINES = 8
"""Lines after one with a code that still belong to its message."""
OM_SUFFIXES = (".om", "_linux_x86_64.om", "_linux_aarch64.om")
"""What atc appends to ``--output``, depending on version and model."""

_GRACE_S = 5.0
_POLL_S = 0.05
_VERSION = re.compile(r"(?i)\b(?:atc|cann|toolkit)\b.*\bversion\b.*\d")
_UNPRINTABLE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class AtcOutcome(NamedTuple):
    """What one run of atc said.

    Attributes:
        exit_code: negative when a signal ended it.
        success_line: whether it announced success.
        error_codes: codes in its output, in order of first appearance.
        error_lines: the first lines that tell errors, with some that follow one with a code.
        first_error: the first line with a code, else the first that tells an error, or empty.
        version: the first line that tells a version of atc or CANN, or empty.
        timed_out: whether it was ended for taking too long.
    """

    exit_code: int
    success_line: bool
    error_codes: tuple[str, ...]
    error_lines: tuple[str, ...]
    first_error: str
    version: str
    timed_out: bool


def run_atc(
    executable: str,
    arguments: Sequence[str],
    *,
    cwd: Path,
    timeout_s: float,
    log_path: Path,
    on_line: Callable[[str], None],
    stop: Stop | None = None,
) -> AtcOutcome:
    """Run atc in a process group of its own, without a shell.

    Args:
        executable: path of atc; a relative one starts at this process's working directory.
        arguments: see `command.atc_arguments`.
        cwd: working directory, which relative paths among the arguments start from.
        timeout_s: seconds after which the whole group is ended.
        log_path: where the output is kept, the beginning of a very long one.
        on_line: is told every line as it comes.
        stop: ends the run when asked to.

    An exception in between, KeyboardInterrupt among them, ends the group before it goes on.

    Raises:
        OSError: when atc cannot be started, or its log not be written.
        output_lines.Stopped: when `stop` was asked for.
    """
    heard = _Heard()
    with output_log(log_path) as log:
        process = subprocess.Popen(
            [str(Path.cwd() / executable), *arguments],
            cwd=str(cwd),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        deadline = time.monotonic() + timeout_s
        try:
            for line in lines_until(process, deadline, stop):
                log.write(line)
                text = _UNPRINTABLE.sub("", line[:LOOKED_AT])
                heard.line(text)
                on_line(text)
            timed_out = process.poll() is None
        finally:
            _end_group(process, stop)
    return AtcOutcome(
        process.returncode,
        heard.success,
        tuple(heard.codes),
        tuple(heard.errors),
        (heard.coded or heard.uncoded).strip()[:QUOTED_CHARACTERS],
        heard.version.strip()[:QUOTED_CHARACTERS],
        timed_out,
    )


def om_candidates(output: Path) -> list[Path]:
    """The files that ``--output`` may become."""
    return [output.with_name(output.name + suffix) for suffix in OM_SUFFIXES]


def find_om(output: Path) -> Path | None:
    """The file that ``--output`` became, if any."""
    return next((path for path in om_candidates(output) if is_plain_file(path)), None)


class _Heard:
    """What is noticed line by line."""

    def __init__(self) -> None:
        self.success = False
        self.codes: dict[str, None] = {}
        self.errors: list[str] = []
        self.coded = self.uncoded = self.version = ""
        self._following = 0

    def line(self, line: str) -> None:
        found = error_codes(line)
        self.codes.update(dict.fromkeys(found))
        self.success = self.success or SUCCESS_LINE in line
        self.coded = self.coded or (line if found else "")
        tells = bool(found) or tells_an_error(line)
        self.uncoded = self.uncoded or (line if tells else "")
        self._following = FOLLOWING_LINES if found else self._following - 1
        if (tells or self._following > 0) and len(self.errors) < KEPT_LINES:
            self.errors.append(line)
        if not self.version and "ersion" in line and _VERSION.search(line):
            self.version = line


def _end_group(process: subprocess.Popen[str], stop: Stop | None) -> None:
    """End whatever is left of the process group: gently, and after a grace period not so."""
    try:
        if _signal_group(process, signal.SIGTERM):
            end = time.monotonic() + _GRACE_S
            while process.poll() is None and time.monotonic() < end:
                if stop is not None and stop.now:
                    break
                time.sleep(_POLL_S)
    finally:  # whatever comes in between, another Ctrl-C among it
        if _signal_group(process, signal.SIGKILL):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)


def _signal_group(process: subprocess.Popen[str], number: signal.Signals) -> bool:
    """Send a signal; false where nothing is left of the group."""
    process.poll()  # a leader that was not waited for still counts as its group
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
