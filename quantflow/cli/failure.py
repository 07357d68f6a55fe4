"""What the command line says when something stops it."""

from __future__ import annotations

import errno
import os
import signal
import sys
import tempfile
import traceback
from dataclasses import asdict
from threading import Event, current_thread, main_thread
from types import FrameType
from typing import Protocol, runtime_checkable

from quantflow.cli.output import print_json, remark
from quantflow.errors import ExitCode, Problem, QuantflowError

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""

_IN_THE_WAY = {errno.ENOTDIR, errno.EISDIR, errno.EEXIST}
_REFUSALS = _IN_THE_WAY | {
    errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO,
    errno.ENAMETOOLONG, errno.ELOOP
}  # fmt: skip
"""What a file system answers when nothing is wrong with the program."""


@runtime_checkable
class _Usage(Protocol):
    """What typer raises for a wrong option: its class lies in a private copy of click."""

    exit_code: int

    def show(self) -> None: ...

    def format_message(self) -> str: ...


def machine_problem(error: Exception) -> QuantflowError | None:
    """The problem that a full disk, a file where a folder belongs or the like is, else None."""
    if isinstance(error, MemoryError):
        fix = "lower runtime.batch or the sizes in target.buckets"
        return QuantflowError([Problem("QF607", "there is not enough memory", fix=fix)])
    if not isinstance(error, OSError) or error.errno not in _REFUSALS:
        return None
    problem = Problem(
        "QF604",
        f"a file cannot be read or written: {error.strerror}",
        where=str(error.filename or ""),
        fix=_fix_of(error.errno),
    )
    return QuantflowError([problem])


def _fix_of(number: int | None) -> str:
    if number in _IN_THE_WAY:
        return "move what is in the way, a file where a folder belongs or the other way round"
    if number in {errno.ENAMETOOLONG, errno.ELOOP}:
        return "choose another path"
    return "free space or set permissions, then run the same command again"


def report(error: Exception | KeyboardInterrupt, *, as_json: bool, verbose: bool) -> int:
    """Say what stopped a command and return the exit status."""
    if isinstance(error, KeyboardInterrupt) or interrupted(error):
        return report_interrupt()
    if isinstance(error, _Usage):
        return _report_usage(error, as_json=as_json)
    problems = error if isinstance(error, QuantflowError) else machine_problem(error)
    if problems is not None:
        return report_problems(problems, as_json=as_json)
    return report_bug(error, verbose=verbose)


def _report_usage(error: _Usage, *, as_json: bool) -> int:
    if not as_json:
        error.show()
        return error.exit_code
    problem = Problem("QF109", error.format_message(), fix="see `quantflow --help`")
    return report_problems(QuantflowError([problem]), as_json=True)


def report_problems(error: QuantflowError, *, as_json: bool) -> int:
    """Print every problem and return the exit status."""
    if as_json:
        print_json({"errors": [asdict(problem) for problem in error.problems]})
    else:
        for problem in error.problems:
            remark(str(problem))
        codes = sorted({problem.code for problem in error.problems})
        remark(f"  more: quantflow explain {codes[0]}")
    return int(error.exit_code)


_ctrl_c = Event()


def watch_for_ctrl_c() -> None:
    """Note Ctrl-C from here on, beside raising `KeyboardInterrupt` as ever."""
    _ctrl_c.clear()
    default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if default and current_thread() is main_thread():
        signal.signal(signal.SIGINT, _note_ctrl_c)


def _note_ctrl_c(number: int, frame: FrameType | None) -> None:
    _ctrl_c.set()
    signal.default_int_handler(number, frame)


def interrupted(error: BaseException) -> bool:
    """Whether Ctrl-C is behind an error: modules in C++ make an `ImportError` of it."""
    return isinstance(error, KeyboardInterrupt) or _ctrl_c.is_set()


def report_interrupt() -> int:
    """Say what Ctrl-C leaves behind and return the exit status."""
    remark("interrupted; finished stages are kept, and `quantflow run` goes on after them")
    return INTERRUPTED


def report_bug(error: BaseException, *, verbose: bool) -> int:
    """Keep the traceback in a file, say where it is, and return the exit status."""
    text = "".join(traceback.format_exception(error))
    handle, path = tempfile.mkstemp(prefix="quantflow-bug-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(f"quantflow {' '.join(sys.argv[1:])}\n\n{text}")
    if verbose:
        remark(text)
    remark(f"this is a bug in quantflow: {type(error).__name__}: {error}")
    remark(f"  traceback: {path}")
    return int(ExitCode.BUG)
