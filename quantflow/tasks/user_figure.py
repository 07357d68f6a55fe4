"""A user's own figure of a sample: a function that is given inputs and outputs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow import user_code
from quantflow.errors import fail

Arrays = Mapping[str, NDArray[Any]]
Figure = Callable[[str, Arrays, Arrays], float]
"""Takes a sample's id, its inputs and its outputs."""

_NO_NUMBER = (str, bytes, bytearray, complex, np.complexfloating)
"""What `float` would take, or take a part of, all the same."""


def load_figure(name: str, base: Path) -> Figure:
    """The function that ``module:function`` names, held to return a number.

    It gets copies of the arrays, so that it may change them.

    Args:
        name: as in the configuration.
        base: directory of the configuration.

    Raises:
        QuantflowError: QF105 when there is no such function; QF312, once it is called, when it
            raises or returns something else than one real number. NaN is one.
    """
    function = user_code.load_function(name, base)

    def figure(sample: str, inputs: Arrays, outputs: Arrays) -> float:
        try:
            # What it prints must not come between the results on stdout.
            with redirect_stdout(sys.stderr):
                found: object = function(sample, _copies(inputs), _copies(outputs))
        except (Exception, SystemExit) as error:
            what = f"on sample {sample!r} it raised {type(error).__name__}: {error}"
            fail("QF312", what, where=name, fix="the traceback of a call of yours shows the line")
        number = _number(found)
        if number is None:
            what = f"on sample {sample!r} it returned {_shown(found)}"
            fail("QF312", what, where=name, fix="return one number for a sample")
        return number

    return figure


def _copies(arrays: Arrays) -> dict[str, NDArray[Any]]:
    return {name: array.copy() for name, array in arrays.items()}


def _number(found: object) -> float | None:
    """A real number of any library, such as an array or tensor without axes; None for all else."""
    shape: object = getattr(found, "shape", ())
    if isinstance(found, _NO_NUMBER) or shape != ():
        return None
    try:
        return float(found)  # pyright: ignore[reportArgumentType]
    except Exception:  # whatever a library has it raise
        return None


def _shown(found: object) -> str:
    shape = getattr(found, "shape", None)
    what = f"{type(found).__name__}"
    return f"{what} {found!r:.60}" if shape is None else f"{what} of shape {tuple(shape)}"
