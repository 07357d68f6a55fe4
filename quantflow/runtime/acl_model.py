"""Running an .om file with pyACL (not run on an NPU to write this).

The order of calls is that of the AscendCL manual: initialize, take a device, make a context, load
the model, describe it, allocate a buffer on the device for every input and output, and per run copy
in, execute, copy out. Each step that holds something is undone in reverse, also when a later one
fails.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from quantflow.errors import QuantflowError, fail
from quantflow.printable import printable, shown
from quantflow.runtime.acl_calls import AclCalls
from quantflow.runtime.om_boundary import MOST, OmTensor, check_described, in_order
from quantflow.runtime.om_model import OmModel
from quantflow.runtime.runner import Feeds

_DTYPES: Final = {
    0: "float32", 1: "float16", 2: "int8", 3: "int32", 4: "uint8", 6: "int16", 7: "uint16",
    8: "uint32", 9: "int64", 10: "uint64", 11: "float64", 12: "bool",
}  # fmt: skip
"""aclDataType, as far as numpy has it."""

_HUGE_FIRST: Final = 0
"""ACL_MEM_MALLOC_HUGE_FIRST."""

_TO_DEVICE, _TO_HOST = 1, 2
"""ACL_MEMCPY_HOST_TO_DEVICE and ACL_MEMCPY_DEVICE_TO_HOST."""

_loaded: list[AclModel] = []


class AclModel(OmModel):
    """A model on an NPU; a process holds one, for pyACL's state is that of the process.

    Args:
        path: of the .om.
        device: number of the NPU.

    Raises:
        QuantflowError: QF620 without pyACL, QF621 when a call fails, QF211 for what
            `check_described` refuses.
        RuntimeError: when another model is loaded.
    """

    def __init__(self, path: str, device: int = 0) -> None:
        if _loaded:
            raise RuntimeError("this process holds an .om model already")
        self._path = path
        self._acl = AclCalls(path)
        self._held = ExitStack()
        try:
            self._load(device)
        except BaseException:
            with suppress(QuantflowError):  # the first failure is the one to tell
                self._held.close()
            raise
        _loaded.append(self)

    def run(self, feeds: Feeds) -> dict[str, NDArray[Any]]:
        """Run once; returns every output by name.

        Raises:
            QuantflowError: QF211 for arrays that are not the .om's inputs, QF621.
        """
        if self not in _loaded:  # what it would copy to is no longer its own
            raise RuntimeError("the model is closed")
        arrays = in_order(feeds, self.inputs, self._path)
        for array, place in zip(arrays, self._sources, strict=True):
            size = array.nbytes
            self._acl.do("rt.memcpy", place, size, array.ctypes.data, size, _TO_DEVICE)
        start = time.perf_counter()
        self._acl.do("mdl.execute", self._model, self._given, self._taken)
        self.last_ms = (time.perf_counter() - start) * 1e3
        values = dict[str, NDArray[Any]]()
        for tensor, place in zip(self.described, self._results, strict=True):
            array = np.empty(tensor.shape, tensor.dtype)
            size = array.nbytes
            self._acl.do("rt.memcpy", array.ctypes.data, size, place, size, _TO_HOST)
            values[tensor.name] = array
        return values

    def close(self) -> None:
        """Give back memory, model, context and device; all of them, also where one call fails."""
        if self in _loaded:
            _loaded.remove(self)
        self._held.close()

    def _load(self, device: int) -> None:
        acl, held, path = self._acl, self._held, self._path
        acl.do("init")
        held.callback(acl.do, "finalize")
        acl.do("rt.set_device", device)
        held.callback(acl.do, "rt.reset_device", device)
        context = acl.do("rt.create_context", device)
        held.callback(acl.do, "rt.destroy_context", context)
        self.device = f"{self._soc_name()}, device {device}"
        self._model = acl.do("mdl.load_from_file", path)
        held.callback(acl.do, "mdl.unload", self._model)
        description = acl.make("mdl.create_desc")
        held.callback(acl.do, "mdl.destroy_desc", description)
        acl.do("mdl.get_desc", description, self._model)
        self.inputs = self._describe(description, "input")
        self.described = self._describe(description, "output")
        check_described(self.inputs, self.described, path)
        self._given, self._sources = self._dataset(self.inputs)
        self._taken, self._results = self._dataset(self.described)

    def _soc_name(self) -> str:
        name = self._acl.ask("get_soc_name") if self._acl.has("get_soc_name") else None
        return printable(name) if isinstance(name, str) and name else "an NPU"

    def _describe(self, description: Any, side: str) -> tuple[OmTensor, ...]:
        acl, tensors = self._acl, list[OmTensor]()
        count = self._number(f"mdl.get_num_{side}s", description)
        if not 0 < count <= MOST:
            fail("QF211", f"it has {count} {side}s", where=self._path)
        for i in range(count):
            name = acl.ask(f"mdl.get_{side}_name_by_index", description, i)
            if not isinstance(name, str):
                acl.failed(f"mdl.get_{side}_name_by_index", f"gave {shown(name)}")
            kind = self._number(f"mdl.get_{side}_data_type", description, i)
            if kind not in _DTYPES:
                what = f"its {side} {name!r} has aclDataType {kind}, which numpy has not"
                fail("QF211", what, where=self._path)
            dims = acl.do(f"mdl.get_{side}_dims", description, i)
            try:
                shape = tuple(map(int, dims["dims"]))
            except Exception:
                acl.failed(f"mdl.get_{side}_dims", f"gave {shown(dims)}")
            size = self._number(f"mdl.get_{side}_size_by_index", description, i)
            tensors.append(OmTensor(name, _DTYPES[kind], shape, size))
        return tuple(tensors)

    def _number(self, name: str, *arguments: Any) -> int:
        number = self._acl.ask(name, *arguments)
        if not isinstance(number, int):
            self._acl.failed(name, f"gave {shown(number)} in place of a number")
        return number

    def _dataset(self, tensors: tuple[OmTensor, ...]) -> tuple[Any, list[Any]]:
        """A dataset with a buffer for every tensor, and the buffers' addresses on the device."""
        acl, held, places = self._acl, self._held, list[Any]()
        dataset = acl.make("mdl.create_dataset")
        held.callback(acl.do, "mdl.destroy_dataset", dataset)
        for tensor in tensors:
            place = acl.do("rt.malloc", tensor.size, _HUGE_FIRST)
            held.callback(acl.do, "rt.free", place)
            buffer = acl.make("create_data_buffer", place, tensor.size)
            held.callback(acl.do, "destroy_data_buffer", buffer)
            acl.do("mdl.add_dataset_buffer", dataset, buffer)
            places.append(place)
        return dataset, places
