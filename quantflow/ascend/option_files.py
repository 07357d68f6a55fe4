"""Files that options of atc name: they have to travel with the model."""

from __future__ import annotations

from pathlib import Path

from quantflow.ascend.options import OPTIONS
from quantflow.config import LoadedConfig


def option_files(loaded: LoadedConfig) -> dict[str, Path]:
    """The files that ``[atc.options]`` names, by option; relative ones start at the configuration.

    Raises:
        QuantflowError: QF104 when a path names a package that is not installed.
    """
    return {
        name: loaded.resolve(str(value))
        for name, value in loaded.config.atc.options.items()
        if name in OPTIONS and OPTIONS[name].file
    }


def travelling_name(option: str, path: Path) -> str:
    """Where the file of an option lies in the hand-over folder."""
    return f"options/{option}{path.suffix}"
