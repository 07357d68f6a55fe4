"""An .om model that is loaded, whatever runs it, and which of the two ways is at hand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib.util import find_spec
from typing import Any, Literal, Self

from numpy.typing import NDArray

from quantflow.errors import fail
from quantflow.runtime.om_boundary import OmTensor
from quantflow.runtime.runner import Feeds

OmBackend = Literal["acl", "ais_bench"]
"""pyACL, a part of CANN, or ais_bench, a tool upon it."""

SEE_DEVICE = "see ~/ascend/log; npu-smi info shows the device"
"""What to do where a device fails."""

_BACKENDS: tuple[OmBackend, ...] = ("acl", "ais_bench")


class OmModel(ABC):
    """A loaded model; a `Runner` that tells what ran it and how long that took.

    Attributes:
        inputs: in the order of the .om.
        described: the outputs, in the order of the .om.
        device: what the backend says that it runs on.
        last_ms: milliseconds of the last execution on the device, copies to and from it left out;
            NaN before the first.
    """

    inputs: tuple[OmTensor, ...]
    described: tuple[OmTensor, ...]
    device: str
    last_ms: float = float("nan")

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the values that `run` returns."""
        return tuple(tensor.name for tensor in self.described)

    @abstractmethod
    def run(self, feeds: Feeds) -> dict[str, NDArray[Any]]:
        """Run once on arrays of the .om's static shapes; returns every output by name."""

    @abstractmethod
    def close(self) -> None:
        """Give back what it holds, also after an error; a second time does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def installed_backends() -> list[OmBackend]:
    """The ways to run an .om that Python finds; nothing is imported."""
    return [name for name in _BACKENDS if find_spec(name) is not None]


def om_backend() -> OmBackend:
    """The way that is taken: pyACL where it is there.

    Raises:
        QuantflowError: QF620 when there is none.
    """
    found = installed_backends()
    if not found:
        fail(
            "QF620",
            "neither acl nor ais_bench is installed, so no .om file was run or measured",
            where="--runner om",
            fix="on a machine with an NPU, source CANN's set_env.sh (pyACL), or install the "
            "aclruntime and ais_bench wheels",
        )
    return found[0]


def load_om(path: str, backend: OmBackend, device: int) -> OmModel:
    """Load a model into this process, which may hold one.

    Args:
        path: of the .om.
        backend: as `om_backend` gives it.
        device: number of the NPU.

    Raises:
        QuantflowError: QF211 for dynamic shapes, QF620 when the backend cannot be imported, QF621
            when a call of it fails.
    """
    if backend == "acl":
        from quantflow.runtime.acl_model import AclModel

        return AclModel(path, device)
    from quantflow.runtime.ais_bench_model import AisBenchModel

    return AisBenchModel(path, device)
