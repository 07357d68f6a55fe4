"""Python source as text: the functions of the running interpreter's standard library."""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

MODULES = 60
"""Modules that are read, in order of their names: as many functions as there are paragraphs."""


def functions(shortest: int = 200, modules: int | None = MODULES) -> Iterator[tuple[str, str]]:
    """Module and source of every function and method, in order of appearance.

    Args:
        shortest: least number of characters of a function.
        modules: how many modules are read, in order of their names; None for all.
    """
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:modules]:
        source = path.read_text(encoding="utf-8")
        lines = source.splitlines()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                text = dedent("\n".join(lines[node.lineno - 1 : node.end_lineno]))
                if len(text) >= shortest:
                    yield path.stem, text
