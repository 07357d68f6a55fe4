"""Files that options of atc name: they have to travel with the model."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quantflow.ascend.option_values import LEGAL_PATH
from quantflow.ascend.options import OPTIONS, option_texts
from quantflow.config import LoadedConfig

LARGEST_FILE: Final = 16 * 1024**2
"""Bytes; such a file has a line for some nodes."""


class UnreadableFile(Exception):
    """A file cannot be read; the message says why."""


def option_files(loaded: LoadedConfig) -> dict[str, Path]:
    """The files that ``[atc.options]`` names, by option; relative ones start at the configuration.

    Raises:
        QuantflowError: QF104 when a path names a package that is not installed.
    """
    return {
        name: loaded.resolve(value)
        for name, value in option_texts(loaded.config.atc.options).items()
        if name in OPTIONS and OPTIONS[name].file
    }


def travelling_name(option: str, path: Path) -> str:
    """Where the file of an option lies in the hand-over folder."""
    return f"options/{option}{path.suffix if LEGAL_PATH.fullmatch(path.suffix) else ''}"


def read_option_file(path: Path) -> str:
    """The text of a file that an option names.

    Raises:
        UnreadableFile: when it is not there, no plain file, too large, or no UTF-8 text.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise UnreadableFile("it is no file")
        with path.open("rb") as stream:
            content = stream.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise UnreadableFile(f"it has more than {LARGEST_FILE >> 20} MB")
        return content.decode("utf-8")
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise UnreadableFile(str(said)) from error
