# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
"""Running ONNX models with onnxruntime."""

from __future__ import annotations

import gc
import re
from functools import cache
from pathlib import Path
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
from numpy.typing import NDArray

from quantflow.config import RuntimeConfig
from quantflow.errors import fail
from quantflow.runtime.onnxruntime_build import PROVIDERS, SESSION_ENTRIES, available_providers
from quantflow.runtime.runner import Feeds
from quantflow.runtime.session_model import (
    IN_MEMORY_BYTES,
    LARGE_BYTES,
    SessionModel,
    session_model,
)

_FOLDER = "session.model_external_initializers_file_folder_path"
_UNPACKED = "session.disable_prepacking"


class OnnxRuntimeRunner:
    """An onnxruntime session.

    Sessions that keep the weights of a large model mapped take turns: beside others, one that has
    not run for longest is closed, and opened again when it is to run.

    Args:
        model: a model, in memory, serialized or in a file. The first may be of any size, for its
            weights are never held twice.
        config: provider and threads.
        optimize: whether onnxruntime may fuse and fold; off, every node runs as written.
        device: number of the GPU or NPU.
        shared: whether memory for activations is shared with other sessions that say so, as many
            small ones need that take turns.

    Raises:
        QuantflowError: QF601 when the provider is missing, QF205 when the model does not load.
    """

    def __init__(
        self,
        model: ir.Model | bytes | Path,
        config: RuntimeConfig | None = None,
        *,
        optimize: bool = True,
        device: int = 0,
        shared: bool = False,
    ) -> None:
        self._config = config or RuntimeConfig()
        self._optimize = optimize
        self._device = device
        self._shared = shared
        source = session_model(model) if isinstance(model, ir.Model) else model
        self._prepared = source if isinstance(source, SessionModel) and source.folder else None
        if self._prepared is not None:
            _make_room(self, self._prepared)
        self._session: ort.InferenceSession | None = self._open(source)
        self._outputs = tuple(str(value.name) for value in self._session.get_outputs())

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the values that `run` returns."""
        return self._outputs

    def run(self, feeds: Feeds) -> dict[str, NDArray[Any]]:
        """Run once; returns every output by name.

        Raises:
            QuantflowError: QF213 when onnxruntime stops at a node, QF607 when memory runs out.
        """
        if self._prepared is not None:
            _make_room(self, self._prepared)
            self._session = self._session or self._open(self._prepared)
        assert self._session is not None
        try:
            values = self._session.run(None, dict(feeds))
        except (TypeError, ValueError):  # feeds that are not the model's are quantflow's own doing
            raise
        except Exception as error:
            _stopped(error, feeds)
        return {name: np.asarray(value) for name, value in zip(self._outputs, values, strict=True)}

    def close(self) -> None:
        """Give up the session; a runner whose weights lie in files opens it again when it runs."""
        if self._prepared is not None:
            self._session = None

    def _open(self, model: SessionModel | bytes | Path) -> ort.InferenceSession:
        providers, options = self._providers(), self._options()
        if isinstance(model, SessionModel):
            if model.folder:
                if model.size > IN_MEMORY_BYTES:
                    # Models are full of cycles: what is no longer needed waits for the collector.
                    gc.collect()
                options.add_session_config_entry(_FOLDER, model.folder)
            if model.large:
                options.add_session_config_entry(_UNPACKED, "1")
            model = model.content
        source = str(model) if isinstance(model, Path) else model
        try:
            return ort.InferenceSession(source, options, providers=providers)
        except Exception as error:
            fail(
                "QF205",
                f"onnxruntime cannot load the model: {error}",
                where=source if isinstance(source, str) else "a model in memory",
            )

    def _options(self) -> ort.SessionOptions:
        options = ort.SessionOptions()
        options.intra_op_num_threads = self._config.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4  # errors are raised, and need not be printed as well
        for name, value in SESSION_ENTRIES.items():
            options.add_session_config_entry(name, value)
        if self._prepared is not None and self._prepared.size > IN_MEMORY_BYTES:
            # An arena grows by doubling, and keeps what it once held. And in the default order all
            # weights of a QDQ model that is not optimized are dequantized before the first layer.
            options.enable_cpu_mem_arena = False
            options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
        elif self._shared:
            _register_arena()
            options.add_session_config_entry("session.use_env_allocators", "1")
        if not self._optimize:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        return options

    def _providers(self) -> list[Any]:
        provider = PROVIDERS[self._config.provider]
        if provider not in available_providers():
            fail(
                "QF601",
                f"onnxruntime has no {provider}",
                where="runtime.provider",
                fix='install the onnxruntime build for it, or set runtime.provider = "cpu"',
            )
        cpu = "CPUExecutionProvider"
        return [cpu] if provider == cpu else [(provider, {"device_id": self._device}), cpu]


_NO_MEMORY = re.compile("failed to allocate memory|bad allocation|bad_alloc", re.IGNORECASE)


def _stopped(error: Exception, feeds: Feeds) -> NoReturn:
    """Raise what stopped a session: QF607 for want of memory, QF213 for all else."""
    message, shapes = str(error), {name: array.shape for name, array in feeds.items()}
    inputs = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    node = re.search(r"running (\S+) node\. Name:'([^']*)'", message)
    where = f"{node[1]} {node[2] or '(unnamed)'}, inputs {inputs}" if node else f"inputs {inputs}"
    if _NO_MEMORY.search(message):
        what = "there is not enough memory to run the model"
        fix = "lower runtime.batch or the sizes in target.buckets"
        fail("QF607", what, where=where, fix=fix)
    fail(
        "QF213",
        f"onnxruntime cannot run the model: {message.split('Status Message: ')[-1].strip()}",
        where=where,
        fix="a size that the graph holds cannot be free: give it as a number in "
        "[model.inputs.NAME] shape; of a free batch, runtime.batch samples run at once",
    )


@cache
def _register_arena() -> None:
    """Make the arena that sessions may share; there is one in a process."""
    place = ort.OrtMemoryInfo(
        "Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT
    )
    ort.create_and_register_allocator(place, ort.OrtArenaCfg(0, -1, -1, -1))


_mapped: WeakKeyDictionary[OnnxRuntimeRunner, SessionModel] = WeakKeyDictionary()
"""Runners whose weights lie in files and whose sessions are open, the one that ran last at the end.
"""


def _make_room(runner: OnnxRuntimeRunner, model: SessionModel) -> None:
    """Close sessions beside a large model's until all hold no more than it does, or a large one."""
    _mapped.pop(runner, None)
    for other in list(_mapped):
        sizes = [model.size, *(x.size for x in _mapped.values())]
        large = model.large or any(x.large for x in _mapped.values())
        if not large or sum(sizes) <= max(LARGE_BYTES, model.size):
            break
        del _mapped[other]
        other.close()
    _mapped[runner] = model
