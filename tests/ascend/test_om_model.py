"""What an .om file is said to hold, against files whose model definition protobuf encoded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quantflow.artifacts.om_description import OmDescription, OmModel, OmPartition, OmTensor
from quantflow.ascend.om_file import describe_om, read_om_header
from quantflow.ascend.om_model import read_model
from quantflow.printable import printable

from . import fake_atc
from .om_builder import MESSAGES, add, model_message, om_file, tensor

ATTRIBUTES = {
    "soc_version": b"Ascend310P3",
    "atc_version": b"8.1.RC1",
    "atc_cmdline": b"atc --model=net.onnx",
    "stream_num": -1,
    "large": 2**63 - 1,
    "is_offline": True,
    "zero": 0,
}
DTYPES = {1: "float32", 2: "float16", 3: "int8", 4: "uint8", 5: "int16", 6: "uint16", 7: "int32",
          8: "int64", 9: "uint32", 10: "uint64", 11: "bool", 12: "float64", 27: "bfloat16",
          }  # fmt: skip


def describe(tmp_path: Path, content: bytes) -> OmDescription:
    path = tmp_path / "model.om"
    path.write_bytes(content)
    return describe_om(path)


def read(message: Any) -> OmModel:
    return read_model(memoryview(message.SerializeToString()))


@pytest.mark.parametrize("legacy", [False, True])
def test_all_that_a_file_says_is_read(tmp_path: Path, legacy: bool) -> None:
    definition = model_message(ATTRIBUTES).SerializeToString()
    content = om_file([(1, b"w" * 40), (0, definition), (9, b"xyz")], legacy=legacy)
    table = 4 + 3 * 12 if legacy else 8 + 3 * 24
    om = describe(tmp_path, content)
    assert om == OmDescription(
        file="model.om",
        size=len(content),
        version=0x20000000,
        name="net",
        platform_version="3.0",
        encrypted=False,
        checksum=False,
        model_type=0,
        model_num=1,
        needs_os_cpu_check=False,
        dynamic_shapes=False,
        soc_version="Ascend310P3",
        partitions=(
            OmPartition(type=1, name="weights", offset=256 + table, size=40),
            OmPartition(type=0, name="model definition", offset=296 + table, size=len(definition)),
            OmPartition(type=9, name="other", offset=len(content) - 3, size=3),
        ),
        model=OmModel(
            name="net",
            version=3,
            attributes={
                key: value.decode() if isinstance(value, bytes) else value
                for key, value in ATTRIBUTES.items()
            },
            op_types={"Data": 2, "MatMulV2": 1, "NetOutput": 1},
            inputs=(
                OmTensor(name="x", dtype="float16", shape=(1, 16), layout="ND"),
                OmTensor(name="mask", dtype="int64", shape=(1, 16), layout="ND"),
            ),
            outputs=(
                OmTensor(name="scores", dtype="float32", shape=(1, 4), layout="ND"),
                OmTensor(name="top:1", dtype="undefined", shape=(), layout="ND"),
            ),
        ),
        not_read="",
    )
    assert OmDescription.model_validate_json(om.model_dump_json()) == om
    for start, part in zip(
        (x.offset for x in om.partitions), (b"w", definition, b"x"), strict=True
    ):
        assert content[start:].startswith(part)


def test_kinds_are_kept_apart() -> None:
    attributes = read(model_message(ATTRIBUTES)).attributes
    assert attributes["is_offline"] is True and type(attributes["zero"]) is int


def test_the_writer_of_the_other_tests_is_read_too(tmp_path: Path) -> None:
    om = describe(tmp_path, fake_atc.om_bytes("Ascend910B4"))
    assert om.soc_version == "Ascend910B4" and om.model
    assert om.model.attributes["atc_version"] == "8.5"


@pytest.mark.parametrize(("number", "words"), [*DTYPES.items(), (99, "dtype 99")])
def test_data_types_are_told_in_words(number: int, words: str) -> None:
    model = MESSAGES["Model"]()
    model.graph.add().op.add(type=b"AippData", name=b"a", output_desc=[tensor(number, (-1, 3))])
    (found,) = read(model).inputs
    assert (found.name, found.dtype, found.shape) == ("a", words, (-1, 3))


def test_shapes_are_read_packed_or_not() -> None:
    dims = bytes([10, 2, 7, 9, 8, 5])  # dim packed, then dim alone
    descriptor = bytes([26, len(dims)]) + dims
    op = b"\x12\x04Data" + bytes([0x92, 2, len(descriptor)]) + descriptor
    graph = bytes([50, len(op)]) + op
    (found,) = read_model(memoryview(bytes([58, len(graph)]) + graph)).inputs
    assert found.shape == (7, 9, 5)


def test_text_that_is_none_is_shown_and_moves_no_cursor() -> None:
    model = model_message({"bad": b"\xff\x1b[2Jend\xe2\x80\xae", "long": b"a" * 9000})
    model.name = b"\xc3"
    found = read(model)
    assert found.name == "\ufffd"
    assert found.attributes["bad"] == "\ufffd\\x1b[2Jend\\u202e"
    assert found.attributes["long"] == "a" * 7997 + "..."


def test_the_last_of_repeated_attributes_counts() -> None:
    first, last = model_message({"a": b"1", "b": 2}), MESSAGES["Model"]()
    add(last, "a", MESSAGES["Attribute"](s=b"3"))
    add(last, "b", MESSAGES["Attribute"](list=MESSAGES["List"](i=[4])))
    message = first.SerializeToString() + last.SerializeToString()
    assert read_model(memoryview(message)).attributes == {"a": "3"}


@pytest.mark.parametrize("other", [{"f": 1.0}, {"dt": 1}, {"list": {}}, {"other12": b""}])
def test_an_attribute_holds_one_value_the_last(other: dict[str, Any]) -> None:
    first, last = MESSAGES["Attribute"](s=b"a"), MESSAGES["Attribute"](**other)
    for one, two, expected in ((first, last, {}), (last, first, {"key": "a"})):
        content = one.SerializeToString() + two.SerializeToString()
        model = MESSAGES["Model"]()
        add(model, "key", MESSAGES["Attribute"].FromString(content))
        entry = b"\x0a\x03key\x12" + bytes([len(content)]) + content
        assert read_model(memoryview(b"\x5a" + bytes([len(entry)]) + entry)).attributes == expected
        assert read(model).attributes == expected


def test_a_chip_is_found_among_any_number_of_attributes(tmp_path: Path) -> None:
    attributes = {f"a{i}": i for i in range(1500)} | {"soc_version": b"Ascend310P3"}
    path = tmp_path / "model.om"
    path.write_bytes(om_file([(0, model_message(attributes).SerializeToString())]))
    assert read_om_header(path).soc_version == "Ascend310P3"
    assert describe_om(path).not_read == "it has more than 1000 attributes"


def test_an_encrypted_file_is_described_by_its_header(tmp_path: Path) -> None:
    content = bytearray(om_file([(0, model_message().SerializeToString())]))
    content[80] = 1
    om = describe(tmp_path, bytes(content))
    assert om.encrypted and om.model is None and om.not_read == "it is encrypted"


TEXT = st.binary(max_size=6) | st.sampled_from([b"Data", b"AippData", b"NetOutput", b"Add"])
TENSORS = st.builds(
    lambda *x: tensor(*x),
    st.integers(0, 40),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
    TEXT,
    TEXT,
)
VALUES = st.one_of(
    st.builds(lambda x: MESSAGES["Attribute"](s=x), TEXT),
    st.builds(lambda x: MESSAGES["Attribute"](i=x), st.integers(-(2**63), 2**63 - 1)),
    st.builds(lambda x: MESSAGES["Attribute"](b=x), st.booleans()),
    st.builds(lambda x: MESSAGES["Attribute"](f=x), st.floats(width=32)),
    st.builds(lambda x: MESSAGES["Attribute"](other12=x), TEXT),
)


def entries(keys: st.SearchStrategy[bytes]) -> st.SearchStrategy[Any]:
    return st.builds(lambda key, value: MESSAGES["Entry"](key=key, value=value), keys, VALUES)


OPS = st.builds(
    lambda **x: MESSAGES["Op"](**x),
    name=TEXT,
    type=TEXT,
    input=st.lists(TEXT | st.just(b"a:-1"), max_size=3),
    input_desc=st.lists(TENSORS, max_size=3),
    output_desc=st.lists(TENSORS, max_size=2),
    attr=st.lists(entries(st.sampled_from([b"index", b"other"])), max_size=3),
)
MODELS = st.builds(
    lambda graphs, **x: MESSAGES["Model"](graph=[{"op": ops} for ops in graphs], **x),
    st.lists(st.lists(OPS, max_size=4), max_size=2),
    name=TEXT,
    version=st.integers(0, 2**32 - 1),
    attr=st.lists(entries(st.binary(max_size=2)), max_size=4),
)


def said(raw: bytes) -> str:
    return printable(raw.decode(errors="replace"), 1000)


def value_of(attribute: Any) -> str | int | bool | None:
    kind = attribute.WhichOneof("value")
    if kind not in ("s", "i", "b"):
        return None
    return said(attribute.s) if kind == "s" else getattr(attribute, kind)


def expected_tensor(message: Any, name: str) -> OmTensor:
    number = message.dtype % 2**32
    words = (DTYPES | {0: "undefined", 13: "string"}).get(number, f"dtype {number}")
    return OmTensor(
        name=name, dtype=words, shape=tuple(message.shape.dim), layout=said(message.layout)
    )


def expected_model(model: Any) -> OmModel:
    """What protobuf's own reader finds in a message, in the terms of the record."""
    values = {said(entry.key): value_of(entry.value) for entry in model.attr}
    ops = list(model.graph[0].op) if model.graph else []
    inputs, outputs, types = list[tuple[int, OmTensor]](), list[OmTensor](), dict[str, int]()
    for op in ops:
        kind = said(op.type)
        types[kind] = types.get(kind, 0) + 1
        if kind in ("Data", "AippData"):
            index = {said(x.key): value_of(x.value) for x in op.attr}.get("index")
            descriptor = op.output_desc[0] if op.output_desc else MESSAGES["Tensor"]()
            place = index if isinstance(index, int) else len(inputs)
            inputs.append((place, expected_tensor(descriptor, said(op.name))))
        elif kind == "NetOutput":
            sources = [said(x) for x in op.input if not said(x).endswith(":-1")] + [""] * 9999
            outputs += [
                expected_tensor(x, said(x.name) or sources[i]) for i, x in enumerate(op.input_desc)
            ]
    return OmModel(
        name=said(model.name),
        version=model.version,
        attributes={key: value for key, value in values.items() if value is not None},
        op_types=types,
        inputs=tuple(x for _, x in sorted(inputs, key=lambda x: x[0])),
        outputs=tuple(outputs),
    )


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(MODELS)
def test_any_model_is_read_as_protobuf_reads_it(model: Any) -> None:
    assert read(model) == expected_model(model)


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_damaged_model_is_read_as_protobuf_reads_it_or_refused(data: st.DataObject) -> None:
    content = bytearray(model_message({"a": b"text", "b": 5, "c": True}).SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = read_model(memoryview(bytes(content)))
    except ValueError:
        return
    try:
        model = MESSAGES["Model"].FromString(bytes(content))
    except Exception:  # of a part that is not read here
        return
    assert found == expected_model(model)
