"""Where the stand-ins for acl and ais_bench lie, and how a test gets at them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parent / "standins"
_NAMES = (
    "acl", "standin_om", "ais_bench", "ais_bench.infer", "ais_bench.infer.interface"
)  # fmt: skip


def put_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process and those that it starts find the stand-ins."""
    monkeypatch.syspath_prepend(FOLDER)
    for name in _NAMES:  # none now, and what is imported from here on is gone after the test
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        del sys.modules[name]


def standin_om() -> ModuleType:
    import standin_om  # type: ignore[import-not-found]

    return standin_om
