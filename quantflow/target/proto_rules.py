"""Rules about the file itself, which an in-memory model cannot break: what is there twice, or not.

They hold for any ONNX file. What they find is mended first, since it leaves open what the rest of
the file means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from math import prod

import onnx

from quantflow.target.dialect import LintFinding


def proto_findings(model: onnx.ModelProto) -> Iterator[LintFinding]:
    """What is wrong with a file as such.

    Args:
        model: read without external data.
    """
    if not model.graph.node and not model.graph.output:
        what = "there is no graph in the file"
        yield LintFinding("error", "graph", what, fix="check how the file came about")
        return
    domains = Counter("" if x.domain == "ai.onnx" else x.domain for x in model.opset_import)
    for domain, count in domains.items():
        if count > 1:
            what = f"{count} opset imports of one domain"
            yield LintFinding("error", "opset", what, domain or "ai.onnx", "keep one of them")
    yield from _graph(model.graph, set())


def _graph(graph: onnx.GraphProto, outer: Set[str]) -> Iterator[LintFinding]:
    """What is wrong with a graph and the bodies in it.

    Args:
        graph: the graph.
        outer: names of the values around it.
    """
    names = _given(graph)
    for name, count in Counter(names).items():
        if count > 1 or name in outer:
            what = f"{count + (name in outer)} inputs, constants or nodes give a value of that name"
            yield LintFinding("error", "value-names", what, name, "give every value its own name")
    for name, count in Counter(value.name for value in graph.output).items():
        if count > 1:
            what = f"{count} outputs have that name"
            yield LintFinding("error", "value-names", what, name, "give every output its own name")
    for value in (*graph.input, *graph.output):
        if not value.name:
            what = "an input or output of the graph has no name"
            yield LintFinding("error", "value-names", what, graph.name, "name it")
    yield from _tensors(graph)
    inner = outer | set(names)
    for node in graph.node:
        for attribute in node.attribute:
            bodies = [attribute.g] if attribute.HasField("g") else []
            for body in (*bodies, *attribute.graphs):
                yield from _graph(body, inner)


def _given(graph: onnx.GraphProto) -> list[str]:
    """Names of all that gives a value: an initializer of an input is a default for it."""
    inputs = [value.name for value in graph.input]
    defaults = set(inputs)
    constants = [tensor.name for tensor in graph.initializer]
    # The first constant of an input's name is its default; a second one is one too many.
    firsts = Counter(constants)
    extra = [name for name, n in firsts.items() for _ in range(n - (name in defaults))]
    outputs = [name for node in graph.node for name in node.output if name]
    return [name for name in (*inputs, *extra, *outputs) if name]


def _tensors(graph: onnx.GraphProto) -> Iterator[LintFinding]:
    """Initializers hold as many bytes as their shape asks for."""
    for tensor in graph.initializer:
        problem = _size_problem(tensor)
        if problem:
            yield LintFinding(
                "error", "initializers", problem, tensor.name, "export the model again"
            )


def _size_problem(tensor: onnx.TensorProto) -> str:
    if any(dim < 0 for dim in tensor.dims):
        return f"its shape is {tuple(tensor.dims)}"
    width = _BYTES.get(tensor.data_type)
    if width is None or not tensor.HasField("raw_data") or tensor.data_location:
        return ""
    wanted = width * prod(tensor.dims)
    if wanted != len(tensor.raw_data):
        return f"it holds {len(tensor.raw_data)} bytes, its shape asks for {wanted}"
    return ""


_BYTES = {
    onnx.TensorProto.DataType.Value(name): width
    for width, names in {
        1: ("INT8", "UINT8", "BOOL"),
        2: ("INT16", "UINT16", "FLOAT16", "BFLOAT16"),
        4: ("INT32", "UINT32", "FLOAT"),
        8: ("INT64", "UINT64", "DOUBLE", "COMPLEX64"),
        16: ("COMPLEX128",),
    }.items()
    for name in names
}
