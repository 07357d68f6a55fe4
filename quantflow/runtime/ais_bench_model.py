# pyright: reportMissingImports=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Running an .om file with ais_bench's InferSession (not run on an NPU to write this)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from quantflow.errors import QuantflowError, fail
from quantflow.printable import raised, shown
from quantflow.runtime.om_boundary import OmTensor, check_described, in_order, kind_text
from quantflow.runtime.om_model import SEE_DEVICE, OmModel
from quantflow.runtime.runner import Feeds


class AisBenchModel(OmModel):
    """A model in an InferSession.

    Args:
        path: of the .om.
        device: number of the NPU.

    Raises:
        QuantflowError: QF620 when ais_bench cannot be imported, QF621 when it raises, QF211 for
            what `check_described` refuses.
    """

    def __init__(self, path: str, device: int = 0) -> None:
        self._path, self.device = path, f"device {device}, as ais_bench says"
        try:
            from ais_bench.infer.interface import InferSession
        except Exception as error:
            fail("QF620", f"ais_bench cannot be imported: {raised(error)}", where="--runner om",
                 fix="source CANN's set_env.sh and install the aclruntime wheel")  # fmt: skip
        self._session: Any = None
        try:
            self._session = InferSession(device, path)
            self.inputs = _described(self._session.get_inputs())
            self.described = _described(self._session.get_outputs())
            check_described(self.inputs, self.described, path)
        except QuantflowError:
            self.close()
            raise
        except Exception as error:
            self.close()
            self._failed("InferSession", error)

    def run(self, feeds: Feeds) -> dict[str, NDArray[Any]]:
        """Run once; returns every output by name.

        Raises:
            QuantflowError: QF211 for arrays that are not the .om's inputs, QF621.
        """
        arrays = in_order(feeds, self.inputs, self._path)
        try:
            values = [np.asarray(x) for x in self._session.infer(arrays, mode="static")]
            self.last_ms = _milliseconds(self._session.summary().exec_time_list[-1])
        except Exception as error:
            self._failed("infer", error)
        if len(values) != len(self.described):
            self._odd(f"{len(values)} outputs, not {len(self.described)}")
        for value, tensor in zip(values, self.described, strict=True):
            given, wanted = (str(value.dtype), value.shape), (tensor.dtype, tensor.shape)
            if given != wanted:
                told = f"{kind_text(*given)}, which the .om describes as {kind_text(*wanted)}"
                self._odd(f"its output {tensor.name!r} as {told}")
        return dict(zip(self.outputs, values, strict=True))

    def close(self) -> None:
        """Give the session up; older versions do it when it is collected."""
        session, self._session = self._session, None
        try:
            release = getattr(session, "free_resource", None)
            if release is not None:
                release()
        except Exception as error:
            self._failed("free_resource", error)

    def _failed(self, call: str, error: Exception) -> NoReturn:
        what = f"ais_bench's {call} raised {raised(error)}"
        fail("QF621", what, where=self._path, fix=SEE_DEVICE)

    def _odd(self, what: str) -> NoReturn:
        fail("QF621", f"ais_bench's infer gave {what}", where=self._path, fix=SEE_DEVICE)


def _described(nodes: Sequence[Any]) -> tuple[OmTensor, ...]:
    """Of ``aclruntime.tensor_desc``, whose types read ``dtype.float32``."""
    tensors = list[OmTensor]()
    for x in nodes:
        if not isinstance(x.name, str):
            raise TypeError(f"the name of an input or output is {shown(x.name)}")
        dtype = str(x.datatype).rpartition(".")[2]
        tensors.append(OmTensor(x.name, dtype, tuple(map(int, x.shape)), int(x.size)))
    return tuple(tensors)


def _milliseconds(entry: Any) -> float:
    """An entry of exec_time_list: milliseconds, in later versions those of start and end."""
    if isinstance(entry, (tuple, list)):
        start, end = entry
        return float(end) - float(start)
    return float(entry)
