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
_WITHOUT_LIMIT = (*_WITHOUT_SET, "doctor", "profile", "watch")


def typed(text: str, config: Path, overrides: Sequence[str] = (), limit: int | None = None) -> str:
    """The text with ``--config``, ``--set`` and ``--limit`` after each command that takes them.

    Args:
        text: a next step or a fix, with commands as ``quantflow COMMAND``.
        config: the configuration; nothing is added for the default one.
        overrides: as they were given.
        limit: as it was given.
    """

    def with_options(found: re.Match[str]) -> str:
        command = found[1]
        if command in _WITHOUT_CONFIG:
            return found[0]
        words = [] if config == DEFAULT_CONFIG else ["--config", str(config)]
        if command not in _WITHOUT_SET:
            words += [word for each in overrides for word in ("--set", each)]
        if command not in _WITHOUT_LIMIT and limit is not None:
            words += ["--limit", str(limit)]
        return shlex.join(["quantflow", command, *words])

    return _COMMAND.sub(with_options, text)
