"""What the command line says when something stops it."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import traceback
from dataclasses import asdict
from typing import Protocol, runtime_checkable

from quantflow.cli.output import print_json, remark
from quantflow.errors import ExitCode, Problem, QuantflowError

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""

_REFUSALS = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO}
"""What a file system answers when nothing is wrong with the program."""


@runtime_checkable
class _Usage(Protocol):
    """What typer raises for a wrong option: its class lies in a private copy of click."""

    exit_code: int

    def show(self) -> None: ...

    def format_message(self) -> str: ...


def machine_problem(error: Exception) -> QuantflowError | None:
    """The problem that a full disk, a read-only directory or too little memory is, else None."""
    if isinstance(error, MemoryError):
        fix = "lower runtime.batch or the sizes in target.buckets"
        return QuantflowError([Problem("QF607", "there is not enough memory", fix=fix)])
    if not isinstance(error, OSError) or error.errno not in _REFUSALS:
        return None
    problem = Problem(
        "QF604",
        f"a file cannot be read or written: {error.strerror}",
        where=str(error.filename or ""),
        fix="free space or set permissions, then run the same command again",
    )
    return QuantflowError([problem])


def report(error: Exception | KeyboardInterrupt, *, as_json: bool, verbose: bool) -> int:
    """Say what stopped a command and return the exit status."""
    if isinstance(error, KeyboardInterrupt):
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
