"""The linter's findings as a table, worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from quantflow.report.sheet import Sheet
from quantflow.target.dialect import LintFinding

_LEVELS = ("error", "warning", "info")


def worst_first(findings: Sequence[LintFinding]) -> list[LintFinding]:
    """Errors, then warnings, then notes; within them by rule, in the order they were found."""
    first = {finding.rule: index for index, finding in reversed(list(enumerate(findings)))}
    return sorted(findings, key=lambda x: (_LEVELS.index(x.level), first[x.rule]))


def lint_sheet(title: str, findings: Sequence[LintFinding]) -> Sheet:
    """One row a finding."""
    return Sheet(
        title,
        ("level", "rule", "where", "what", "fix"),
        "lllll",
        tuple((x.level, x.rule, x.where, x.what, x.fix) for x in worst_first(findings)),
    )


def counts(findings: Sequence[LintFinding]) -> dict[str, int]:
    """Number of findings of every level, those without any too."""
    found = Counter(finding.level for finding in findings)
    return {level: found[level] for level in _LEVELS}


def counts_text(findings: Sequence[LintFinding]) -> str:
    """``2 errors, 1 warning``."""
    numbers = counts(findings)
    named = {"error": numbers["error"], "warning": numbers["warning"]}
    return ", ".join(f"{n} {name}{'' if n == 1 else 's'}" for name, n in named.items())
