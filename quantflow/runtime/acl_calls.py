# pyright: reportUnknownVariableType=false
"""Calls of pyACL: every one is checked, and a failure is one coded error.

Three kinds of answers, by the AscendCL manual (Python): a code alone, values and then a code, and a
bare value where nothing can fail but an allocation. Code 0 is success.
"""

from __future__ import annotations

import importlib
from typing import Any, NoReturn, cast

from quantflow.errors import fail
from quantflow.printable import raised, shown


class AclCalls:
    """pyACL's functions by name.

    Args:
        where: what the calls are about, for messages.

    Raises:
        QuantflowError: QF620 when `acl` cannot be imported.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        try:
            self._acl = importlib.import_module("acl")
        except Exception as error:
            fail("QF620", f"acl cannot be imported: {raised(error)}", where="--runner om",
                 fix="source CANN's set_env.sh")  # fmt: skip

    def do(self, name: str, *arguments: Any) -> Any:
        """A call that answers with a code, or with a value and a code: the value, or None.

        Args:
            name: without the module, such as ``mdl.execute``.
            arguments: of the call.

        Raises:
            QuantflowError: QF621 for a code other than 0, for what is no code, and when it raises.
        """
        answer: Any = self.ask(name, *arguments)
        value: Any
        code: Any
        value, code = (answer[0], answer[-1]) if _is_pair(answer) else (None, answer)
        if not isinstance(code, int) or code != 0:
            self.failed(name, f"returned the code {shown(code)}")
        return value

    def make(self, name: str, *arguments: Any) -> Any:
        """A call that answers with a handle, which is 0 or None where there is no memory.

        Raises:
            QuantflowError: QF621 for such an answer, and when it raises.
        """
        handle = self.ask(name, *arguments)
        if not isinstance(handle, int) or not handle:
            self.failed(name, f"gave {shown(handle)} in place of a handle")
        return handle

    def ask(self, name: str, *arguments: Any) -> Any:
        """A call that answers with a bare value.

        Raises:
            QuantflowError: QF621 when there is no such function, and when it raises.
        """
        function = self._look_up(name)
        if function is None:
            self.failed(name, "is not in this version of pyACL")
        try:
            return function(*arguments)
        except Exception as error:
            self.failed(name, f"raised {raised(error)}")

    def has(self, name: str) -> bool:
        """Whether this version has a function."""
        return self._look_up(name) is not None

    def failed(self, name: str, how: str) -> NoReturn:
        """Refuse what a call came to.

        Raises:
            QuantflowError: QF621.
        """
        fix = "see the code in the AscendCL manual, and ~/ascend/log; npu-smi info shows the device"
        fail("QF621", f"acl.{name} {how}", where=self._where, fix=fix)

    def _look_up(self, name: str) -> Any:
        found: Any = self._acl
        for part in name.split("."):
            found = getattr(found, part, None)
        return found


def _is_pair(answer: Any) -> bool:
    return isinstance(answer, tuple) and len(cast("tuple[object, ...]", answer)) > 1
