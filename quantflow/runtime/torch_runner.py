# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
"""Running torch modules on a CPU, a GPU or an NPU (not run on an NPU to write this)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.errors import fail
from quantflow.quiet_torch import first_lines, silence
from quantflow.runtime.runner import Feeds
from quantflow.torch_import import import_torch, import_torch_npu


class TorchRunner:
    """A module in eval mode on a device.

    Args:
        module: a ``torch.nn.Module``; it is moved to the device.
        inputs: names, in the order of ``forward``.
        outputs: names to give the tensors that it returns, in order.
        device: as `torch.device` takes it: ``cpu``, ``cuda:1``, ``npu:0``.

    Raises:
        QuantflowError: QF603 when torch or torch_npu cannot be imported, QF622 when the device
            cannot be used.
    """

    def __init__(
        self, module: Any, inputs: Sequence[str], outputs: Sequence[str], device: str = "cpu"
    ) -> None:
        self._torch = import_torch()
        if device.partition(":")[0] == "npu":
            import_torch_npu()
        self._inputs, self._outputs = tuple(inputs), tuple(outputs)
        self._device = device
        if isinstance(module, self._torch.nn.Module):  # else it is refused where it is exported
            self._move(module)
        self._module = module

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the values that `run` returns."""
        return self._outputs

    def run(self, feeds: Feeds) -> dict[str, NDArray[Any]]:
        """Run once on arrays that include the batch axis; returns every output by name.

        Raises:
            QuantflowError: QF203 when the module raises, or gives another number of tensors than
                there are names.
        """
        torch = self._torch
        try:
            with torch.no_grad(), silence():
                given = (torch.from_numpy(feeds[name]).to(self._device) for name in self._inputs)
                result = self._module(*given)
            leaves = torch.utils._pytree.tree_leaves(result)
            arrays = [self._array(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)]
            return dict(zip(self._outputs, arrays, strict=True))
        except Exception as error:
            fail("QF203", f"the module does not run: {first_lines(error)}", where="model.factory")

    def _array(self, tensor: Any) -> NDArray[Any]:
        tensor = tensor.detach().cpu()
        # numpy has no bfloat16.
        return np.asarray(tensor.float() if tensor.dtype == self._torch.bfloat16 else tensor)

    def _move(self, module: Any) -> None:
        try:
            device = self._torch.device(self._device)
            self._torch.zeros(1, device=device)  # a module without weights moves anywhere
            module.eval().to(device)
        except Exception as error:  # RuntimeError, AssertionError and others, by backend
            what = f"torch cannot use the device {self._device!r}: {first_lines(error)}"
            fix = "give cpu, cuda:N or npu:N, and install torch for it"
            fail("QF622", what, where="--runner", fix=fix)
