"""Entry point of the command line: runs it and turns what stops it into an exit status."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from quantflow.cli.app import app
from quantflow.cli.failure import INTERRUPTED, report_bug, report_interrupt, report_problems
from quantflow.errors import QuantflowError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: arguments without the program's name; those of the process when None.

    Returns:
        The exit status, see `errors.ExitCode`; 130 after Ctrl-C.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        app(arguments, prog_name="quantflow")
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        return report_interrupt() if code == INTERRUPTED else code
    except KeyboardInterrupt:
        return report_interrupt()
    except QuantflowError as error:
        return report_problems(error, as_json="--json" in arguments)
    except Exception as error:
        return report_bug(error, verbose=not {"-v", "--verbose"}.isdisjoint(arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
