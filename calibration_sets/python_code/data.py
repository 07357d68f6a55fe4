"""Records of the set: functions of Python's standard library, no module in two of the sources."""

from __future__ import annotations

from functools import cache

from python_source import functions

Record = dict[str, str]

PARTS = 3
"""Calibration, deployment and evaluation."""


def candidate_functions() -> list[Record]:
    """Candidates for calibration: records with the `text` of a function and its module, `title`."""
    return _functions_of_part(0)


def deployment_functions() -> list[Record]:
    """What stands for production: functions of other modules."""
    return _functions_of_part(1)


def evaluation_functions() -> list[Record]:
    """What accuracy is measured on: functions of yet other modules."""
    return _functions_of_part(2)


def _functions_of_part(part: int) -> list[Record]:
    """Functions of every third module, from number `part` on."""
    sources = _functions()
    modules = set(list(dict.fromkeys(sources.values()))[part::PARTS])
    return [
        {"text": text, "title": module} for text, module in sources.items() if module in modules
    ]


@cache
def _functions() -> dict[str, str]:
    """The module of every function of the library, by the source of the function.

    Modules share a few functions word for word. The first module keeps them.
    """
    sources = dict[str, str]()
    for module, text in functions(modules=None):
        sources.setdefault(text, module)
    return sources
