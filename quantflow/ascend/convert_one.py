"""One conversion: atc, its .om file, and what is left of both.

Travels with the hand-over folder, so: Python 3.7 and the standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from .atc_failure import failure_text, problem_of
from .interrupts import Stop
from .om_check import changed_files, changed_since, file_sha256
from .run_atc import find_om, om_candidates, run_atc


class Result(NamedTuple):
    """What came of a conversion; fields as in `artifacts.om_record.Conversion`."""

    status: str
    reason: str = ""
    om: str | None = None
    sha256: str | None = None
    size: int | None = None
    log: str = ""
    atc_version: str = ""


class Judges(NamedTuple):
    """What a conversion is judged by.

    Attributes:
        om_problem: what is wrong with an .om file, or empty.
        places: the nodes and layers that lines of atc's output name.
    """

    om_problem: Callable[[Path], str]
    places: Callable[[Sequence[str]], list[str]]


def log_name(name: str) -> str:
    """Where a conversion's output is kept, relative to the folder."""
    return f"logs/{name}.log"


def convert_one(
    executable: str,
    name: str,
    arguments: Sequence[str],
    *,
    files: Mapping[str, str],
    folder: Path,
    shown_folder: str,
    timeout_s: float,
    judges: Judges,
    on_line: Callable[[str], None],
    stop: Stop,
) -> Result:
    """Run atc once; the folder then holds the .om file only if it was converted.

    Args:
        executable: path of atc.
        name: of the conversion and of its .om file.
        arguments: of atc.
        files: SHA-256 of every file that atc reads, which it must leave as it is.
        folder: that paths among them start from.
        shown_folder: in front of the log's name where a person reads it.
        timeout_s: seconds after which atc is ended.
        judges: decide.
        on_line: is told every line of output.
        stop: ends atc when asked to.

    Raises:
        output_lines.Stopped: when `stop` was asked for; no file is left then.
    """
    output, log = folder / name, log_name(name)
    remove_om(output)  # a file that lies there already says nothing about this run
    try:
        outcome = run_atc(
            executable,
            arguments,
            cwd=folder,
            timeout_s=timeout_s,
            log_path=folder / log,
            on_line=on_line,
            stop=stop,
        )
        om = find_om(output)
        problem = problem_of(outcome, timeout_s)
        if not problem:
            missing = "atc announced success but wrote no .om file"
            problem = missing if om is None else judges.om_problem(om)
        changed = changed_files(folder, files)
        if changed:
            problem = f"atc changed {', '.join(changed)}"
        version = outcome.version
        if not problem and om is not None:
            size = om.stat().st_size
            return Result("converted", "", om.name, file_sha256(om), size, log, version)
        set_aside(output)
    except (OSError, ValueError) as error:  # ValueError: arguments that no program can be given
        remove_om(output)
        return Result("failed", f"atc could not be started, or its files not written: {error}")
    except BaseException:
        remove_om(output)
        raise
    places = judges.places(outcome.error_lines)
    reason = failure_text(problem, outcome, places, shown_folder + log)
    return Result("failed", reason, log=log, atc_version=version)


def not_as_verified(folder: Path, om: str | None, size: object, sha256: object) -> str:
    """Why a converted model does not count in the end, or empty: another run may have touched it.

    Args:
        folder: that holds it.
        om, size, sha256: its file, as it was verified.
    """
    if om is not None and not changed_since(folder / om, size, sha256):
        return ""
    return f"{om} is not the file that was verified: it was changed afterwards, or removed"


def set_aside(output: Path) -> None:
    """Rename what ``--output`` may have become: it is no result."""
    for path in om_candidates(output):
        if path.is_file() or path.is_symlink():
            path.replace(path.with_name(path.name + ".rejected"))


def remove_om(output: Path) -> None:
    """Remove what ``--output`` may have become."""
    for path in om_candidates(output):
        if path.is_file() or path.is_symlink():
            path.unlink()
