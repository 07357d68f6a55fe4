"""The AMCT record says what the factors say, to protobuf's own reader and to ours."""

import contextlib

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.model_record import Layer, ModelRecord
from quantflow.errors import QuantflowError
from quantflow.export.amct_record import AmctEntry, amct_entries, read_record, write_record
from tests.export.builders import export, linear

FLOAT32 = st.floats(2.0**-60, 2.0**60, width=32)


def amct_message():
    """The record's message type, declared as AMCT documents it: repeated fields and floats."""
    kinds = descriptor_pb2.FieldDescriptorProto
    proto = descriptor_pb2.FileDescriptorProto(name="amct.proto", package="amct")
    value = proto.message_type.add(name="Value")
    for number, (name, kind, label) in enumerate([
        ("scale_d", kinds.TYPE_FLOAT, kinds.LABEL_OPTIONAL),
        ("offset_d", kinds.TYPE_INT32, kinds.LABEL_OPTIONAL),
        ("scale_w", kinds.TYPE_FLOAT, kinds.LABEL_REPEATED),
        ("offset_w", kinds.TYPE_INT32, kinds.LABEL_REPEATED),
    ], start=1):  # fmt: skip
        value.field.add(name=name, number=number, type=kind, label=label)
    entry = proto.message_type.add(name="Entry")
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_OPTIONAL,
                    type_name=".amct.Value")  # fmt: skip
    record = proto.message_type.add(name="Record")
    record.field.add(name="record", number=1, type=kinds.TYPE_MESSAGE,
                     label=kinds.LABEL_REPEATED, type_name=".amct.Entry")  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.Add(proto)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("amct.Record"))


MESSAGE = amct_message()


def record_and_factors(nodes):
    """A record with a layer a node, named unlike it, and the layers' factors."""
    layers = tuple(
        Layer(name=f"layer {i}", node=node, op_type="MatMul", role="other", group="g", input="x",
              weight="w", bias=None, bias_node=None, output="y", macs=1)
        for i, node in enumerate(nodes)
    )  # fmt: skip
    record = ModelRecord(opset=17, inputs=(), outputs=(), layers=layers, groups=(), padding=())
    factors = tuple(
        LayerFactors(layer=f"layer {i}", group="g", precision="int8", scale_d=scale,
                     offset_d=offset, scale_w=tuple(scales))
        for i, (scale, offset, scales) in enumerate(nodes.values())
    )  # fmt: skip
    return record, factors


FACTORS = st.tuples(FLOAT32, st.integers(-128, 127), st.lists(FLOAT32, min_size=1, max_size=4))
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(max_examples=60)
@given(nodes=st.dictionaries(NAMES, FACTORS, max_size=4))
def test_protobufs_reader_and_ours_get_back_every_factor_exactly(nodes):
    record, factors = record_and_factors(nodes)
    text = write_record(record, factors)
    expected = {
        node: (np.float32(scale), offset, [np.float32(s) for s in scales], [0] * len(scales))
        for node, (scale, offset, scales) in nodes.items()
    }
    parsed = text_format.Parse(text, MESSAGE())
    assert {
        e.key: (np.float32(e.value.scale_d), e.value.offset_d,
                [np.float32(s) for s in e.value.scale_w], list(e.value.offset_w))
        for e in parsed.record
    } == expected  # fmt: skip
    ours = read_record(text)
    assert ours == amct_entries(record, factors)
    assert [entry.scale_d for entry in ours.values()] == [f.scale_d for f in factors]


@settings(max_examples=40)
@given(nodes=st.dictionaries(NAMES, FACTORS, max_size=3))
def test_we_read_what_protobuf_writes(nodes):
    message = MESSAGE()
    for node, (scale, offset, scales) in nodes.items():
        entry = message.record.add(key=node)
        entry.value.scale_d, entry.value.offset_d = scale, offset
        entry.value.scale_w.extend(scales)
        entry.value.offset_w.extend([0] * len(scales))
    expected = {
        node: AmctEntry(scale, offset, tuple(scales), (0,) * len(scales))
        for node, (scale, offset, scales) in nodes.items()
    }
    for style in ({}, {"as_one_line": True}, {"as_utf8": True}):
        assert read_record(text_format.MessageToString(message, **style)) == expected


def test_the_documented_form_is_read_comments_and_separators_included():
    text = """# AMCT
    record {
      key: 'a/b'
      value: { scale_d: 0.5; offset_d: -128, scale_w: 1e-2 offset_w: 0 scale_w: .25 offset_w: 0 }
    }"""
    expected = AmctEntry(0.5, -128, (float(np.float32(0.01)), 0.25), (0, 0))
    assert read_record(text) == {"a/b": expected}


def test_float_layers_are_not_in_the_record():
    exported = export(linear(np.ones((3, 2), np.float32), None, "Gemm"), {"x": (0, 1)}, fp16=["l"])
    assert write_record(exported.record, exported.factors) == ""
    assert read_record("") == {}


GOOD = 'record { key: "a" value { scale_d: 1 offset_d: 0 scale_w: 1 offset_w: 0 } }\n'


@pytest.mark.parametrize(
    "text",
    [
        GOOD + GOOD,
        GOOD[:-3],
        GOOD.replace("scale_d: 1", "scale_d: nan"),
        GOOD.replace("scale_d: 1", "scale_d: -1"),
        GOOD.replace("scale_d: 1", ""),
        GOOD.replace("offset_d: 0", "offset_d: 128"),
        GOOD.replace("offset_w: 0", "offset_w: x"),
        GOOD.replace("offset_w: 0", ""),
        GOOD.replace('key: "a"', ""),
        GOOD.replace('"a"', '"\\377"'),
        GOOD.replace("record", "layer"),
        "record: 3",
        "record { " * 2000,
        "\x00",
        ": :",
        "a b",
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(QuantflowError, match="QF545"):
        read_record(text)


@given(st.text(max_size=40))
@settings(max_examples=100)
def test_no_text_breaks_the_reader(text):
    with contextlib.suppress(QuantflowError):
        read_record(text)
