"""One line of `quantflow doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from quantflow.errors import Problem, QuantflowError

Level = Literal["ok", "warn", "error"]
Area = Literal["environment", "configuration"]

MARKS: dict[Level, str] = {"ok": "[ok]", "warn": "[warn]", "error": "[x]"}


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at and how it is.

    Attributes:
        area: an error in `environment` is the machine's, one in `configuration` the user's file.
        name: what was looked at.
        level: an `error` stops the work, a `warn` limits it.
        value: what was found.
        fix: what to do, or empty.
    """

    area: Area
    name: str
    level: Level
    value: str
    fix: str = ""

    def __str__(self) -> str:
        line = f"{MARKS[self.level]:6} {self.name}: {self.value}"
        return f"{line}\n       fix: {self.fix}" if self.fix else line


def problem_check(area: Area, name: str, problem: Problem) -> Check:
    """A problem as a line."""
    where = f" ({problem.where})" if problem.where else ""
    return Check(area, name, "error", f"{problem.code} {problem.what}{where}", problem.fix)


def problem_checks(area: Area, name: str, error: QuantflowError) -> list[Check]:
    """Every problem of an exception as a line of its own."""
    return [problem_check(area, name, problem) for problem in error.problems]
