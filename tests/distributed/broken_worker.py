"""The command line, with worker 1 broken as WORKER_1 says, or all of them by Ctrl-C."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from quantflow.__main__ import main
from quantflow.errors import fail
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner


def _break(*_: object) -> None:
    if os.environ["WORKER_1"] == "kill":
        os.kill(os.getpid(), 9)
    if os.environ["WORKER_1"] == "interrupt":
        Path(f"interrupted_{os.environ['RANK']}").touch()
        raise KeyboardInterrupt
    fail("QF501", "tensor does not fit", where="here")


if __name__ == "__main__":
    if os.environ["RANK"] == "1" or os.environ["WORKER_1"] == "interrupt":
        OnnxRuntimeRunner.run = _break  # type: ignore[method-assign]
    sys.exit(main())
