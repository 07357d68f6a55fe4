"""A stand-in for pyACL: its functions as documented, on numpy, with a record of what is held.

`fail` names calls that return the code 507899, `fail_at` the number of one. A real pointer error is
one here as well: memory on the "device" is known by its address and size, and nothing else is read.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
from standin_om import compute, read_om

CODE = 507899
TYPES = {"float32": 0, "float16": 1, "int8": 2, "int32": 3, "int64": 9, "bool": 12, "bfloat16": 27}

calls: list[str] = []
held: dict[str, dict[int, Any]] = {}
fail: set[str] = set()
fail_at: int | None = None
_numbers = itertools.count(1000)


def reset() -> None:
    global fail_at
    calls.clear()
    held.clear()
    fail.clear()
    fail_at = None
    fail.update(filter(None, os.environ.get("STANDIN_ACL_FAIL", "").split(",")))


def left() -> dict[str, int]:
    """How many of everything are held."""
    return {kind: len(entries) for kind, entries in held.items() if entries}


def _fails(name: str) -> bool:
    calls.append(name)
    return name in fail or len(calls) - 1 == fail_at


def _hold(kind: str, content: Any = None, number: int | None = None) -> int:
    number = next(_numbers) if number is None else number
    held.setdefault(kind, {})[number] = content
    return number


def _code(name: str, kind: str, number: int) -> int:
    """Give something back; a call that fails has done its work, as a cautious driver would."""
    found = held.get(kind, {}).pop(number, None) is not None or False
    failed = _fails(name)
    return CODE if failed or not found else 0


def init(*_: Any) -> int:
    print("[acl] a line on stdout")
    return CODE if _fails("init") else (_hold("acl", True), 0)[1]


def finalize() -> int:
    return _code("finalize", "acl", next(iter(held.get("acl", {})), -1))


def get_soc_name() -> str:
    return "Ascend310P3"


def _set_device(device: int) -> int:
    if _fails("rt.set_device"):
        return CODE
    _hold("device", True, device)
    return 0


def _create_context(device: int) -> tuple[Any, int]:
    assert device in held["device"]
    return (None, CODE) if _fails("rt.create_context") else (_hold("context", True), 0)


def _malloc(size: int, policy: int) -> tuple[Any, int]:
    assert policy in (0, 1, 2)
    if _fails("rt.malloc"):
        return None, CODE
    memory = ctypes.create_string_buffer(size)
    return _hold("memory", memory, ctypes.addressof(memory)), 0


def _memcpy(target: int, room: int, source: int, size: int, kind: int) -> int:
    if _fails("rt.memcpy"):
        return CODE
    device, host = (target, source) if kind == 1 else (source, target)
    assert size <= room and kind in (1, 2)
    assert size <= len(held["memory"][device]) and host not in held["memory"]
    ctypes.memmove(target, source, size)
    return 0


rt = SimpleNamespace(
    set_device=_set_device,
    reset_device=lambda device: _code("rt.reset_device", "device", device),
    create_context=_create_context,
    destroy_context=lambda context: _code("rt.destroy_context", "context", context),
    malloc=_malloc,
    free=lambda place: _code("rt.free", "memory", place),
    memcpy=_memcpy,
)


def _load_from_file(path: str) -> tuple[Any, int]:
    if _fails("mdl.load_from_file"):
        return None, CODE
    if os.environ.get("STANDIN_ACL_CRASH"):
        os.abort()
    return _hold("model", read_om(path)), 0


def _get_desc(description: int, model: int) -> int:
    held["description"][description] = held["model"][model]
    return CODE if _fails("mdl.get_desc") else 0


def _create(name: str, kind: str, content: Any = None) -> int:
    return 0 if _fails(name) else _hold(kind, content if content is not None else True)


def _add(dataset: int, buffer: int) -> tuple[int, int]:
    held["dataset"][dataset].append(held["buffer"][buffer])
    return dataset, CODE if _fails("mdl.add_dataset_buffer") else 0


def _execute(model: int, given: int, taken: int) -> int:
    if _fails("mdl.execute"):
        return CODE
    content = held["model"][model]
    time.sleep(content.get("sleep_ms", 0) / 1e3)
    arrays = list[np.ndarray]()
    for (place, size), (_, dtype, shape) in zip(
        held["dataset"][given], content["inputs"], strict=True
    ):
        raw = held["memory"][place].raw[:size]
        arrays.append(np.frombuffer(raw, dtype).reshape(shape))
    for (place, size), value in zip(held["dataset"][taken], compute(content, arrays), strict=True):
        raw = value.tobytes()
        assert len(raw) <= size
        ctypes.memmove(place, raw, len(raw))
    return 0


def _tensor(description: int, side: str, i: int) -> tuple[str, str, list[int]]:
    return held["description"][description][side][i]


def _size(description: int, side: str, i: int) -> int:
    _, dtype, shape = _tensor(description, side, i)
    item = 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize
    more = held["description"][description].get("more_bytes", 0)
    return int(np.prod([abs(dim) for dim in shape])) * item + more


def _dims(name: str, description: int, side: str, i: int) -> tuple[dict[str, Any], int]:
    shape = _tensor(description, side, i)[2]
    return {"name": "", "dimCount": len(shape), "dims": shape}, CODE if _fails(name) else 0


mdl = SimpleNamespace(
    load_from_file=_load_from_file,
    unload=lambda model: _code("mdl.unload", "model", model),
    create_desc=lambda: _create("mdl.create_desc", "description"),
    destroy_desc=lambda x: _code("mdl.destroy_desc", "description", x),
    get_desc=_get_desc,
    create_dataset=lambda: _create("mdl.create_dataset", "dataset", []),
    destroy_dataset=lambda x: _code("mdl.destroy_dataset", "dataset", x),
    add_dataset_buffer=_add,
    execute=_execute,
)
for _side in ("input", "output"):

    def _define(side: str, key: str) -> None:
        functions = {
            f"get_num_{key}": lambda x: len(held["description"][x][key]),
            f"get_{side}_name_by_index": lambda x, i: _tensor(x, key, i)[0],
            f"get_{side}_data_type": lambda x, i: TYPES[_tensor(x, key, i)[1]],
            f"get_{side}_size_by_index": lambda x, i: _size(x, key, i),
            f"get_{side}_dims": lambda x, i: _dims(f"mdl.get_{side}_dims", x, key, i),
        }
        for name, function in functions.items():
            setattr(mdl, name, function)

    _define(_side, f"{_side}s")


def create_data_buffer(place: int, size: int) -> int:
    return _create("create_data_buffer", "buffer", (place, size))


def destroy_data_buffer(buffer: int) -> int:
    return _code("destroy_data_buffer", "buffer", buffer)


reset()
