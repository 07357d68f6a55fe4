"""Commands in a sentence as they have to be typed: with the configuration in force."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from quantflow.cli.options import DEFAULT_CONFIG

_COMMAND = re.compile(r"\bquantflow ([a-z]+(?:-[a-z]+)*)\b")
_WITHOUT_CONFIG = ("explain", "from-qdq", "init", "lint")
_WITHOUT_SET = ("report", "show")


def typed(text: str, config: Path, overrides: Sequence[str] = ()) -> str:
    """The text with ``--config`` and ``--set`` after each ``quantflow COMMAND`` that takes them.

    Args:
        text: a next step or a fix.
        config: the configuration; nothing is added for the default one.
        overrides: as they were given.
    """

    def with_options(found: re.Match[str]) -> str:
        command = found[1]
        if command in _WITHOUT_CONFIG:
            return found[0]
        words = [] if config == DEFAULT_CONFIG else ["--config", str(config)]
        if command not in _WITHOUT_SET:
            words += [word for each in overrides for word in ("--set", each)]
        return shlex.join(["quantflow", command, *words])

    return _COMMAND.sub(with_options, text)
