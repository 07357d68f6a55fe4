"""A process that does not outlive the one that started it, whatever it is busy with."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from multiprocessing import parent_process

_SET_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of ``prctl(2)``."""


def end_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends; on Linux only.

    No signal handler and no thread would do: a call into a library may hold the interpreter.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    parent = parent_process()
    if parent is not None and os.getppid() != parent.pid:  # it ended before that
        os._exit(1)
