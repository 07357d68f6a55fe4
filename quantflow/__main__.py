"""Entry point of the command line: runs it and turns what stops it into an exit status."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from quantflow.cli.app import app
from quantflow.cli.failure import INTERRUPTED, report, report_interrupt, watch_for_ctrl_c


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: arguments without the program's name; those of the process when None.

    Returns:
        The exit status, see `errors.ExitCode`; 130 after Ctrl-C.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    watch_for_ctrl_c()
    try:
        code = app(arguments, prog_name="quantflow", standalone_mode=False)
        if isinstance(code, int):
            return report_interrupt() if code == INTERRUPTED else code
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except (Exception, KeyboardInterrupt) as error:
        verbose = not {"-v", "--verbose"}.isdisjoint(arguments)
        return report(error, as_json="--json" in arguments, verbose=verbose)
    return 0


if __name__ == "__main__":
    sys.exit(main())
