"""One refusal of files of arrays that cannot be read, whatever is wrong with them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from quantflow.errors import fail


@contextmanager
def reading(path: Path, what: str, code: str, stage: str) -> Generator[None]:
    """Turn what goes wrong in reading a safetensors file, and in taking it apart, into one error.

    Args:
        path: of the file.
        what: is in it, in the plural.
        code: of the error.
        stage: the command that writes the file.

    Raises:
        QuantflowError: with that code, when the file is missing, damaged or of another kind.
    """
    try:
        yield
    # safetensors raises AttributeError for types that numpy lacks.
    except (OSError, SafetensorError, LookupError, ValueError, TypeError, AttributeError) as error:
        fail(
            code,
            f"{what} cannot be read: {error}",
            where=str(path),
            fix=f"rerun `quantflow {stage} --force`",
        )
