"""A next step is a command that can be pasted."""

from __future__ import annotations

from pathlib import Path

import pytest

from quantflow.cli.next_command import typed
from quantflow.cli.options import DEFAULT_CONFIG


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run `quantflow sweep`", "run `quantflow sweep --config a/my.toml --set x.y=1`"),
        (
            "quantflow build-set --set set.selection=match",
            "quantflow build-set --config a/my.toml --set x.y=1 --set set.selection=match",
        ),
        ("quantflow show fp16", "quantflow show --config a/my.toml fp16"),
        ("quantflow explain QF203", "quantflow explain QF203"),
        ("edit plan.json, then quantflow export-onnx; quantflow compare",
         "edit plan.json, then quantflow export-onnx --config a/my.toml --set x.y=1; "
         "quantflow compare --config a/my.toml --set x.y=1"),
    ],
)  # fmt: skip
def test_commands_carry_the_configuration_and_what_was_overridden(text: str, expected: str) -> None:
    assert typed(text, Path("a/my.toml"), ["x.y=1"]) == expected


def test_words_with_blanks_are_quoted() -> None:
    found = typed("quantflow run", Path("my model.toml"), ['run.directory="a b"'])
    assert found == "quantflow run --config 'my model.toml' --set 'run.directory=\"a b\"'"


def test_the_default_configuration_need_not_be_said() -> None:
    assert typed("quantflow run", DEFAULT_CONFIG) == "quantflow run"
