"""Adding nodes and constants to a graph without ever colliding with a name."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.graph.edit import all_values, fresh_name


class Additions:
    """Adds named things to a graph: every name is new, whatever the graph holds already."""

    def __init__(self, model: ir.Model) -> None:
        self._graph = model.graph
        graphs = list(model.graphs())
        self._taken = {value.name or "" for graph in graphs for value in all_values(graph)}
        self._taken |= {node.name or "" for node in model.graph.all_nodes()}
        self._shared: dict[Hashable, ir.Value] = {}

    def name(self, base: str) -> str:
        """`base`, made unique among all values and nodes, and taken."""
        name = fresh_name(base, self._taken)
        self._taken.add(name)
        return name

    def initializer(self, base: str, array: NDArray[Any]) -> ir.Value:
        """A new initializer that holds `array`."""
        name = self.name(base)
        tensor = ir.tensor(np.array(array, order="C"), name=name)
        value = ir.Value(
            name=name,
            shape=ir.Shape(array.shape),
            type=ir.TensorType(tensor.dtype),
            const_value=tensor,
        )
        self._graph.register_initializer(value)
        return value

    def shared(self, base: str, key: Hashable, array: NDArray[Any]) -> ir.Value:
        """The initializer made before under `key`, else a new one."""
        if key not in self._shared:
            self._shared[key] = self.initializer(base, array)
        return self._shared[key]

    def node(
        self,
        base: str,
        op_type: str,
        inputs: Sequence[ir.Value],
        dtype: ir.DataType,
        *,
        like: ir.Value | None = None,
        attributes: Iterable[ir.Attr] = (),
    ) -> ir.Node:
        """A new node of one output, not yet placed in the graph.

        Args:
            base: name of the node and, with its element type, of its output.
            op_type: operator of the default domain.
            inputs: its inputs.
            dtype: element type of its output.
            like: a value of the output's shape.
            attributes: typed attributes.
        """
        node = ir.Node("", op_type, inputs, attributes, name=self.name(base))
        output = node.outputs[0]
        output.name = self.name(f"{base}/{dtype.name.lower()}")
        output.type = ir.TensorType(dtype)
        output.shape = like.shape.copy() if like is not None and like.shape is not None else None
        return node
