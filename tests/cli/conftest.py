from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quantflow.__main__ import main


@dataclass(frozen=True)
class Answer:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Answer]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs the command line in this process."""

    def run(*arguments: str | Path) -> Answer:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run
