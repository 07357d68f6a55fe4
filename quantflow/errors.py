"""Errors that say what is wrong, where, and how to mend it.

Every problem has a code (``QF203``) that `quantflow explain` describes at length. Several problems
can travel in one exception, so that a user sees all of them at once.

Code blocks: 1xx configuration and usage, 2xx model, 3xx data, 4xx artifacts, 5xx ranges, plan and
export, 6xx environment, 7xx atc.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from enum import IntEnum
from typing import NoReturn

from quantflow.error_codes import ERROR_CODES


class ExitCode(IntEnum):
    """Exit status of the command line."""

    OK = 0
    GATE_FAILED = 1
    USAGE = 2
    ENVIRONMENT = 3
    ATC_FAILED = 4
    BUG = 70


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        code: a key of `ERROR_CODES`, e.g. ``QF101``.
        what: what is wrong, in one sentence.
        where: file, key, node or tensor; empty when there is no such place.
        fix: what the reader should do.
    """

    code: str
    what: str
    where: str = ""
    fix: str = ""

    def __post_init__(self) -> None:
        if self.code not in ERROR_CODES:
            raise ValueError(f"unknown error code {self.code}")

    def __str__(self) -> str:
        lines = [f"{self.code} {self.what}"]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        return "\n".join(lines)


class QuantflowError(Exception):
    """One or more problems that stop the work."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @property
    def exit_code(self) -> ExitCode:
        """The exit status: that of the first problem's code block."""
        block = self.problems[0].code[2]
        return {"6": ExitCode.ENVIRONMENT, "7": ExitCode.ATC_FAILED}.get(block, ExitCode.USAGE)


def fail(code: str, what: str, *, where: str = "", fix: str = "") -> NoReturn:
    """Raise a `QuantflowError` with a single problem."""
    raise QuantflowError([Problem(code, what, where, fix)])


def _closeness(name: str, other: str) -> tuple[float, int]:
    alike = sum(a == b for a, b in zip(name, other, strict=False))
    return SequenceMatcher(None, other, name).ratio(), alike


def did_you_mean(name: str, known: Iterable[str], limit: int = 3) -> str:
    """``"did you mean 'a' or 'b'?"`` for the names nearest to `name`, or the known names."""
    names = sorted(set(known))
    near = get_close_matches(name, names, n=max(len(names), 1), cutoff=0.5)
    # Among equally near ones, those with the same characters in the same places come first.
    near = sorted(near, key=lambda other: _closeness(name, other), reverse=True)[:limit]
    if near:
        return "did you mean " + " or ".join(repr(match) for match in near) + "?"
    return "known: " + ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
