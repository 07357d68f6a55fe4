"""`quantflow explain`: the table of error codes."""

from __future__ import annotations

from typing import Annotated

import typer

from quantflow.cli.options import Json
from quantflow.cli.output import print_json, say
from quantflow.error_codes import ERROR_CODES

Code = Annotated[str | None, typer.Argument(metavar="[CODE]", help="Such as QF203.")]


def explain(code: Code = None, json: Json = False) -> None:
    """Explain an error code; without one, list them all.

    \b
    Examples:
      quantflow explain QF203
      quantflow explain
    """
    from quantflow.errors import did_you_mean, fail

    chosen = ERROR_CODES
    if code is not None:
        name = code.upper()
        if name not in ERROR_CODES:
            fail("QF107", f"no error code {code!r}", fix=did_you_mean(name, ERROR_CODES))
        chosen = {name: ERROR_CODES[name]}
    if json:
        print_json({name: entry._asdict() for name, entry in chosen.items()})
    elif code is None:
        for name, entry in chosen.items():
            say(f"{name}  {entry.title}")
    else:
        for name, entry in chosen.items():
            say(f"{name} {entry.title}\n\n{entry.explanation}")
