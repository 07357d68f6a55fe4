"""AscendQuant in standard operators, in the two forms that lowered layers read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import onnx_ir as ir

from quantflow.export.additions import Additions
from quantflow.export.deployed import DeployedInput
from quantflow.numerics.quantize import QMAX, QMIN

SHIFT = 128
"""From int8 to uint8."""

Form = Literal["uint8", "steps"]


class LoweredInputs:
    """Makes what layers read in place of an AscendQuant's output, once for all that share it."""

    def __init__(self, additions: Additions) -> None:
        self._additions = additions
        self._made: dict[tuple[ir.Node, Form], ir.Value] = {}

    def shifted(self, entry: DeployedInput) -> ir.Value:
        """``clip(rint(x * scale) + offset, -128, 127) + 128`` as uint8.

        onnxruntime multiplies u8 x s8 several times faster than s8 x s8. Offset and shift are one
        addition: `rint` gives an integer, sums of integers below 2^24 are exact in float32, and
        beyond that both orders saturate to the same bound.
        """
        key: tuple[ir.Node, Form] = (entry.quant, "uint8")
        if key not in self._made:
            self._made[key] = _Chain(entry, self._additions, "").shifted()
        return self._made[key]

    def steps(self, entry: DeployedInput) -> ir.Value:
        """``clip(rint(x * scale) + offset, -128, 127) - offset``, integers in float32.

        The offset is subtracted before the clipping, from both bounds. Without it, padding is zero
        as in any float convolution.
        """
        key: tuple[ir.Node, Form] = (entry.quant, "steps")
        if key not in self._made:
            self._made[key] = _Chain(entry, self._additions, "steps/").steps()
        return self._made[key]


class _Chain:
    """Nodes one after the other, in front of an AscendQuant that they stand in for."""

    def __init__(self, entry: DeployedInput, additions: Additions, prefix: str) -> None:
        self._entry = entry
        self._additions = additions
        self._base = f"{entry.quant.name}/{prefix}"
        source = entry.quant.inputs[0]
        assert source is not None
        self._source = self._value = source

    def shifted(self) -> ir.Value:
        self._round()
        self._append("Add", {"offset": self._entry.zero_point + SHIFT})
        self._append("Clip", {"low": 0, "high": QMAX + SHIFT})
        to = [ir.AttrInt64("to", ir.DataType.UINT8.value)]
        return self._append("Cast", {}, ir.DataType.UINT8, to)

    def steps(self) -> ir.Value:
        self._round()
        zero_point = self._entry.zero_point
        return self._append("Clip", {"low": QMIN - zero_point, "high": QMAX - zero_point})

    def _round(self) -> None:
        self._append("Mul", {"scale": self._entry.multiplier})
        self._append("Round", {})

    def _append(
        self,
        op_type: str,
        constants: dict[str, np.float32 | int],
        dtype: ir.DataType = ir.DataType.FLOAT,
        attributes: Sequence[ir.Attr] = (),
    ) -> ir.Value:
        operands = [
            self._additions.initializer(self._base + suffix, np.asarray(value, np.float32))
            for suffix, value in constants.items()
        ]
        node = self._additions.node(
            self._base + op_type, op_type, [self._value, *operands], dtype,
            like=self._source, attributes=attributes,
        )  # fmt: skip
        quant = self._entry.quant
        assert isinstance(quant.graph, ir.Graph)
        quant.graph.insert_before(quant, node)
        self._value = node.outputs[0]
        return self._value
