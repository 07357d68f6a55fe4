"""Runs atc and judges what it left behind.

atc writes everything to stdout. A conversion counts only when exit code, success line and the .om
file agree, since each of them alone has been seen to say yes when another said no.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from quantflow.artifacts.om_record import OmStatus
from quantflow.ascend.error_hints import error_codes, explain, tells_an_error
from quantflow.ascend.om_file import read_om_header
from quantflow.errors import QuantflowError

SUCCESS_LINE: Final = "ATC run success"
KEPT_LINES: Final = 400
"""Lines of output kept in memory; the log has all of them."""
QUOTED_CHARACTERS: Final = 300
"""Of atc's first error line."""
OM_SUFFIXES: Final = (".om", "_linux_x86_64.om", "_linux_aarch64.om")
"""What atc appends to ``--output``, depending on version and model."""

_GRACE_S: Final = 5.0
_POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class AtcOutcome:
    """What one run of atc said.

    Attributes:
        exit_code: negative when a signal ended it.
        lines: the last lines of its output.
        success_line: whether it announced success.
        error_codes: codes in its output, in order of first appearance.
        timed_out: whether it was ended for taking too long.
        first_error: the first line that tells an error, or empty.
    """

    exit_code: int
    lines: tuple[str, ...]
    success_line: bool
    error_codes: tuple[str, ...]
    timed_out: bool
    first_error: str


def run_atc(
    executable: str,
    arguments: Sequence[str],
    *,
    cwd: Path,
    timeout_s: float,
    log_path: Path,
    on_line: Callable[[str], None],
) -> AtcOutcome:
    """Run atc in a process group of its own, without a shell.

    Args:
        executable: path of atc.
        arguments: see `command.atc_arguments`.
        cwd: working directory, which relative paths among the arguments start from.
        timeout_s: seconds after which the whole group is ended.
        log_path: where the output is kept.
        on_line: is told every line as it comes.

    An exception in between, KeyboardInterrupt among them, ends the group before it goes on.
    """
    lines: deque[str] = deque(maxlen=KEPT_LINES)
    codes: dict[str, None] = {}
    success, first_error = False, ""
    log_path.parent.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [executable, *arguments],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    deadline = time.monotonic() + timeout_s
    try:
        with log_path.open("w", encoding="utf-8") as log:
            for line in _lines_until(process, deadline):
                log.write(line + "\n")
                lines.append(line)
                codes |= dict.fromkeys(error_codes(line))
                success = success or SUCCESS_LINE in line
                if not first_error and tells_an_error(line):
                    first_error = line.strip()[:QUOTED_CHARACTERS]
                on_line(line)
        timed_out = process.poll() is None
    finally:
        _end_group(process)
    return AtcOutcome(
        process.returncode, tuple(lines), success, tuple(codes), timed_out, first_error
    )


def judge(outcome: AtcOutcome, om_path: Path | None, soc_version: str) -> tuple[OmStatus, str]:
    """Whether a run converted the model, and if not, why.

    Args:
        outcome: of the run.
        om_path: the file it wrote, None when there is none.
        soc_version: the chip it was asked to compile for.
    """
    problem = _process_problem(outcome) or _file_problem(om_path, soc_version)
    if not problem:
        return "converted", ""
    said = f"atc said {outcome.first_error!r}" if outcome.first_error else ""
    return "failed", "; ".join(filter(None, (problem, said, explain(outcome.error_codes))))


def om_candidates(output: Path) -> list[Path]:
    """The files that ``--output`` may become."""
    return [output.with_name(output.name + suffix) for suffix in OM_SUFFIXES]


def find_om(output: Path) -> Path | None:
    """The file that ``--output`` became, if any."""
    return next((path for path in om_candidates(output) if path.is_file()), None)


def _process_problem(outcome: AtcOutcome) -> str:
    if outcome.timed_out:
        return "atc took longer than atc.timeout_s and was ended"
    if outcome.exit_code != 0:
        said = "although it announced success" if outcome.success_line else "without success"
        return f"atc ended with exit code {outcome.exit_code}, {said}"
    if not outcome.success_line:
        return "atc ended with exit code 0 but never announced success"
    return ""


def _file_problem(om_path: Path | None, soc_version: str) -> str:
    if om_path is None:
        return "atc announced success but wrote no .om file"
    try:
        header = read_om_header(om_path)
    except QuantflowError as error:
        return error.problems[0].what
    compiled_for = header.soc_version
    if compiled_for is not None and compiled_for.lower() != soc_version.lower():
        return f"the .om file is for {compiled_for}, not {soc_version}"
    return ""


def _lines_until(process: subprocess.Popen[str], deadline: float) -> Iterator[str]:
    """Lines of output until it ends, the process does, or the deadline passes.

    A thread reads, so that a silent atc cannot outlive its deadline and a grandchild that keeps
    the pipe open cannot outlive atc.
    """
    queue: SimpleQueue[str | None] = SimpleQueue()
    threading.Thread(target=_read_lines, args=(process, queue), daemon=True).start()
    ended = False
    while time.monotonic() < deadline:
        try:
            line = queue.get(timeout=_POLL_S)
        except Empty:
            if ended:
                return
            ended = process.poll() is not None
            continue
        if line is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            return
        yield line


def _read_lines(process: subprocess.Popen[str], queue: SimpleQueue[str | None]) -> None:
    assert process.stdout is not None
    with process.stdout as stream:
        for line in stream:
            queue.put(line.rstrip("\r\n"))
    queue.put(None)


def _end_group(process: subprocess.Popen[str]) -> None:
    """End whatever is left of the process group: gently, and after a grace period not so."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        process.poll()  # a leader that was not waited for still counts as its group
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
