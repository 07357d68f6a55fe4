"""An .om model in a process of its own.

pyACL's state is that of a process, what it prints goes to stdout, and a wrong file may end it. So a
model has a process, and two of them can take turns on one device. What passes between the two are
arrays and plain values; the other end is always a process that was started here.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from numpy.typing import NDArray

from quantflow.errors import Problem, QuantflowError, fail
from quantflow.printable import raised
from quantflow.runtime.end_with_parent import end_with_parent
from quantflow.runtime.om_model import SEE_DEVICE, OmBackend, OmModel, load_om
from quantflow.runtime.runner import Feeds

ANSWER_S = 600.0
"""Seconds after which a model that does not answer is given up: loading may take minutes."""


_LEAVE_S = 20.0
"""Seconds that the process has to give back what it holds."""


class OmProcess(OmModel):
    """A model that runs elsewhere.

    Args:
        path: of the .om.
        backend: what runs it.
        device: number of the NPU.

    Raises:
        QuantflowError: what `load_om` raises; QF621 when the process ends or does not answer.
    """

    def __init__(self, path: str, backend: OmBackend, device: int = 0) -> None:
        context = get_context("spawn")
        self._path = path
        self._connection, theirs = context.Pipe()
        arguments = (theirs, path, backend, device)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        try:
            self.inputs, self.described, self.device = self._answer()
        except BaseException:
            self.close()
            raise

    def run(self, feeds: Feeds) -> dict[str, NDArray[Any]]:
        """Run once; returns every output by name.

        Raises:
            QuantflowError: QF211 for arrays that are not the .om's inputs, QF621.
        """
        with suppress(OSError):  # of one that has ended; there is no answer then
            self._connection.send(dict(feeds))
        values, self.last_ms = self._answer()
        return values

    def close(self) -> None:
        """Have the process give back what it holds and end; a second time does nothing."""
        with suppress(OSError):
            self._connection.send(None)
        self._process.join(_LEAVE_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._connection.close()

    def _answer(self) -> Any:
        try:
            if not self._connection.poll(ANSWER_S):
                self._process.kill()
                self._failed(f"gave no answer for {ANSWER_S:.0f} s")
            kind, content = self._connection.recv()
        except (EOFError, OSError):
            self._process.join(_LEAVE_S)
            self._failed(f"ended with status {self._process.exitcode}")
        if kind == "failed":
            raise QuantflowError(Problem(**entry) for entry in content)
        if kind == "bug":
            raise RuntimeError(content)
        return content

    def _failed(self, how: str) -> NoReturn:
        what = f"the process that ran the model {how}"
        fail("QF621", what, where=self._path, fix=SEE_DEVICE)


def _serve(connection: Connection, path: str, backend: OmBackend, device: int) -> None:
    """What the process does: load, then run what comes until nothing does."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other end says when to stop
    os.dup2(2, 1)  # what CANN prints is no result
    try:
        model = load_om(path, backend, device)
        try:
            connection.send(("done", (model.inputs, model.described, model.device)))
            while (feeds := _next(connection)) is not None:
                values = model.run(feeds)
                connection.send(("done", (values, model.last_ms)))
        except BaseException:
            with suppress(QuantflowError):  # the first failure is the one to tell
                model.close()
            raise
        model.close()
    except QuantflowError as error:
        _tell(connection, "failed", [asdict(problem) for problem in error.problems])
    except Exception:
        _tell(connection, "bug", traceback.format_exc())
    except BaseException as error:  # the backend's own, such as SystemExit
        what = f"{raised(error)} ended the process that ran the model"
        _tell(connection, "failed", [asdict(Problem("QF621", what, path, SEE_DEVICE))])


def _next(connection: Connection) -> Mapping[str, NDArray[Any]] | None:
    try:
        return connection.recv()
    except EOFError:
        return None


def _tell(connection: Connection, kind: str, content: object) -> None:
    with suppress(OSError):
        connection.send((kind, content))
