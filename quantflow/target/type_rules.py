"""Rules about element types: what the compiler has no kernels for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import onnx_ir as ir

from quantflow.target.dialect import LintFinding, int_attribute, label, nodes_of

_REFUSED: Final = frozenset(
    (
        *("STRING", "COMPLEX64", "COMPLEX128", "INT4", "UINT4", "INT2", "UINT2", "FLOAT4E2M1"),
        *("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0"),
    )
)
_COSTLY: Final = frozenset(("DOUBLE", "BFLOAT16"))


def element_types(model: ir.Model) -> Iterator[LintFinding]:
    """No text, complex numbers or floats narrower than fp16; double and bfloat16 with care."""
    places: dict[str, list[str]] = {}
    for name, dtype in _types(model):
        if dtype in _REFUSED | _COSTLY:
            places.setdefault(dtype, []).append(name)
    for dtype, names in sorted(places.items()):
        more = f", ... ({len(names)} values)" if len(names) > 1 else ""
        if dtype in _REFUSED:
            what, fix = f"there are values of type {dtype}", "export the model without it"
            yield LintFinding("error", "element-types", what, names[0] + more, fix)
        else:
            what = f"there are values of type {dtype}, which not every chip and kernel takes"
            fix = "export the model in float32, which fp16 is derived from"
            yield LintFinding("warning", "element-types", what, names[0] + more, fix)


def _types(model: ir.Model) -> Iterator[tuple[str, str]]:
    """Names of values and of their types, as far as the file says them."""
    for value in _values(model):
        if value.dtype is not None:
            yield str(value.name), value.dtype.name
    for node in nodes_of(model, "Cast"):
        to = int_attribute(node, "to", 0)
        if to is not None and to in {kind.value for kind in ir.DataType}:
            yield label(node), ir.DataType(to).name


def _values(model: ir.Model) -> Iterator[ir.Value]:
    for graph in (model.graph, *model.graph.subgraphs()):
        yield from graph.inputs
        yield from (value for value in graph.initializers.values() if not value.is_graph_input())
        for node in graph:
            yield from node.outputs
