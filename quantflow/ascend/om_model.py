"""The ModelDef message of an .om file: attributes, inputs, outputs, operators.

Field numbers are those of the open sources of CANN's graph engine (``ge_ir.proto``, August 2026)::

    ModelDef {name 1, version 2, graph 7 repeated GraphDef, attr 11 map}
    GraphDef {op 6 repeated OpDef}
    OpDef {name 1, type 2, input 5, attr 10 map, input_desc 33, output_desc 34}

Of a field that must not repeat, the last one counts, as in protobuf's own readers.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from quantflow.artifacts.om_description import OmModel, OmTensor
from quantflow.ascend.om_attributes import Attribute, check_number, read_entry, text
from quantflow.ascend.om_tensors import read_tensor
from quantflow.ascend.protobuf_wire import FieldBudget, fields

MAX_ATTRIBUTES: Final = 1000
MAX_TENSORS: Final = 1000
"""Inputs, outputs, and names of what leads to outputs."""
MAX_OP_TYPES: Final = 10_000

_INPUT_TYPES: Final = ("Data", "AippData")
_OUTPUT_TYPE: Final = "NetOutput"
_CONTROL_EDGE: Final = ":-1"
"""End of an input that only says what comes first."""


def read_model(message: memoryview) -> OmModel:
    """Read a ModelDef message.

    Raises:
        ValueError: in words, when it is damaged, or holds more of anything than is read.
    """
    budget = FieldBudget()
    name, version, graph = "", 0, memoryview(b"")
    attributes = dict[str, Attribute]()
    has_graph = False
    for number, value in fields(message, budget):
        if number == 1:
            name = text(value, name)
        elif number == 2 and isinstance(value, int):
            version = value & 0xFFFFFFFF
        elif number == 7 and isinstance(value, memoryview) and not has_graph:
            graph, has_graph = value, True
        elif number == 11 and isinstance(value, memoryview):
            key, attribute = read_entry(value, budget)
            attributes.pop(key, None)
            if attribute is not None:
                attributes[key] = attribute
            check_number(attributes, MAX_ATTRIBUTES, "attributes")
    types, inputs, outputs = _read_graph(graph, budget)
    return OmModel(
        name=name,
        version=version,
        attributes=attributes,
        op_types=types,
        inputs=inputs,
        outputs=outputs,
    )


def string_attribute(message: memoryview, name: str) -> str | None:
    """An attribute of a ModelDef message that holds text; None where it has none of that name.

    Raises:
        ValueError: in words, when the message is damaged.
    """
    budget, found = FieldBudget(), None
    for number, value in fields(message, budget):
        if number == 11 and isinstance(value, memoryview):
            key, attribute = read_entry(value, budget)
            found = attribute if key == name else found
    return found if isinstance(found, str) else None


def _read_graph(
    graph: memoryview, budget: FieldBudget
) -> tuple[dict[str, int], tuple[OmTensor, ...], tuple[OmTensor, ...]]:
    """Operators by type, inputs and outputs of a GraphDef message."""
    types = Counter[str]()
    inputs, outputs = list[tuple[int, OmTensor]](), list[OmTensor]()
    for number, op in fields(graph, budget):
        if number != 6 or not isinstance(op, memoryview):
            continue
        kind = _op_type(op, budget)
        types[kind] += 1
        check_number(types, MAX_OP_TYPES, "types of operators")
        if kind in _INPUT_TYPES:
            inputs.append(_read_input(op, len(inputs), budget))
            check_number(inputs, MAX_TENSORS, "inputs")
        elif kind == _OUTPUT_TYPE:
            outputs += _read_outputs(op, budget)
            check_number(outputs, MAX_TENSORS, "outputs")
    ordered = sorted(inputs, key=lambda x: x[0])
    return dict(types), tuple(tensor for _, tensor in ordered), tuple(outputs)


def _op_type(op: memoryview, budget: FieldBudget) -> str:
    kind = ""
    for number, value in fields(op, budget):
        if number == 2:
            kind = text(value, kind)
    return kind


def _read_input(op: memoryview, place: int, budget: FieldBudget) -> tuple[int, OmTensor]:
    """The place at which an input is fed, and what it takes.

    The place is the attribute ``index``, and that among the inputs in the file without one.
    """
    name, descriptor = "", memoryview(b"")
    index, has_descriptor = place, False
    for number, value in fields(op, budget):
        if number == 1:
            name = text(value, name)
        elif number == 34 and isinstance(value, memoryview) and not has_descriptor:
            descriptor, has_descriptor = value, True
        elif number == 10 and isinstance(value, memoryview):
            key, attribute = read_entry(value, budget)
            if key == "index":
                index = attribute if isinstance(attribute, int) else place
    return index, read_tensor(descriptor, budget, name, own_name=False)


def _read_outputs(op: memoryview, budget: FieldBudget) -> list[OmTensor]:
    """The tensors that reach a NetOutput operator."""
    sources, descriptors = list[str](), list[memoryview]()
    for number, value in fields(op, budget):
        if number == 5 and isinstance(value, memoryview):
            source = text(value)
            sources += [] if source.endswith(_CONTROL_EDGE) else [source]
            check_number(sources, MAX_TENSORS, "names of outputs")
        elif number == 33 and isinstance(value, memoryview):
            descriptors.append(value)
            check_number(descriptors, MAX_TENSORS, "outputs")
    sources += [""] * (len(descriptors) - len(sources))
    return [
        read_tensor(descriptor, budget, source)
        for source, descriptor in zip(sources, descriptors, strict=False)
    ]
