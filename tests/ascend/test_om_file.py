"""The .om header, against files written from the documented layout."""

from __future__ import annotations

import os
import struct
from dataclasses import asdict
from pathlib import Path

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quantflow.ascend.om_file import read_om_header
from quantflow.ascend.om_header import OmHeader
from quantflow.ascend.protobuf_wire import FieldBudget, fields, int64, packed
from quantflow.errors import QuantflowError

from .fake_atc import om_bytes


def read(tmp_path: Path, content: bytes) -> OmHeader:
    path = tmp_path / "model.om"
    path.write_bytes(content)
    return read_om_header(path)


@pytest.mark.parametrize("legacy", [False, True])
def test_both_layouts_are_read(tmp_path: Path, legacy: bool) -> None:
    content = om_bytes("Ascend910B4-1", legacy=legacy)
    header = read(tmp_path, content)
    assert header == OmHeader(
        version=0x10000001,
        name="net",
        platform_version="3.0",
        length=len(content) - 256,
        encrypted=False,
        checksum=False,
        model_type=0,
        model_num=1,
        needs_os_cpu_check=False,
        dynamic_shapes=False,
        legacy=legacy,
        soc_version="Ascend910B4-1",
    )


@pytest.mark.parametrize(
    ("offset", "value", "name"),
    [
        (80, 1, "encrypted"),
        (81, 1, "checksum"),
        (82, 2, "model_type"),
        (156, 3, "model_num"),
        (192, 1, "needs_os_cpu_check"),
        (193, 1, "dynamic_shapes"),
    ],
)
def test_each_flag_stands_at_its_place(tmp_path: Path, offset: int, value: int, name: str) -> None:
    content = bytearray(om_bytes())
    content[offset] = value
    before, after = read(tmp_path, om_bytes()), read(tmp_path, bytes(content))
    changed = {key for key in asdict(before) if getattr(before, key) != getattr(after, key)}
    assert getattr(after, name) == value
    assert changed - {"soc_version"} == {name}  # of an encrypted file, the chip cannot be read


def test_a_file_need_not_name_its_chip(tmp_path: Path) -> None:
    assert read(tmp_path, om_bytes(None)).soc_version is None
    assert read(tmp_path, om_bytes(encrypted=True)).soc_version is None


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    content = om_bytes()
    for size in (0, 1, 4, 255, 256, 260, len(content) - 1):
        with pytest.raises(QuantflowError) as error:
            read(tmp_path, content[:size])
        assert error.value.problems[0].code == "QF702"


@pytest.mark.parametrize(
    ("offset", "raw", "word"),
    [
        (0, b"PK\3\4", "starts with"),
        (4, struct.pack("<I", 128), "header size"),
        (184, struct.pack("<Q", 2**63), "announces"),
    ],
)
def test_a_wrong_header_is_refused_with_the_reason(
    tmp_path: Path, offset: int, raw: bytes, word: str
) -> None:
    content = bytearray(om_bytes())
    content[offset : offset + len(raw)] = raw
    with pytest.raises(QuantflowError, match=word):
        read(tmp_path, bytes(content))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(QuantflowError, match="cannot be read"):
        read_om_header(tmp_path / "none.om")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.om")
    for name in ("pipe.om", "."):
        with pytest.raises(QuantflowError, match="it is no regular file"):
            read_om_header(tmp_path / name)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_hostile_tables_and_messages_do_no_harm(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(om_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        position = data.draw(st.integers(256, len(content) - 1))
        content[position] = data.draw(st.integers(0, 255))
    header = read(tmp_path, bytes(content))
    assert header.length == len(content) - 256


@given(st.binary(max_size=40))
def test_the_wire_reader_ends_or_refuses_on_any_bytes(message: bytes) -> None:
    try:
        for number, _ in fields(memoryview(message)):
            assert number >= 0
    except ValueError:
        pass


@given(st.text(max_size=200), st.integers(-(2**63), 2**63 - 1), st.floats(width=32))
def test_the_wire_reader_agrees_with_protobuf(name: str, number: int, real: float) -> None:
    attribute = onnx.AttributeProto(name=name, i=number, f=real)
    found = dict(fields(memoryview(attribute.SerializeToString())))
    assert bytes(found[1]) == name.encode()  # type: ignore[arg-type]
    assert bytes(found[2]) == struct.pack("<f", real)  # type: ignore[arg-type]
    assert found[3] == number % 2**64


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_packed_integers_agree_with_protobuf(values: list[int]) -> None:
    found = dict(fields(memoryview(onnx.TensorProto(int64_data=values).SerializeToString())))
    content = found.get(7, memoryview(b""))
    assert isinstance(content, memoryview)
    assert [int64(x) for x in packed(content, FieldBudget())] == values


def test_the_kinds_of_values_can_be_told_apart() -> None:
    message = memoryview(bytes([8, 5, 18, 1, 97, 29, 1, 2, 3, 4, 33, *range(8)]))
    assert [(number, type(value)) for number, value in fields(message)] == [
        (1, int), (2, memoryview), (3, bytes), (4, bytes)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "message",
    [
        bytes([0, 1]),  # field number 0
        bytes([8]),  # no value
        bytes([8, *[0xFF] * 10, 1]),  # a number of 11 bytes
        bytes([0x80] * 4 + [0x7F, 0]),  # a field number of more than 29 bits
        bytes([11, 12]),  # a group
        bytes([14, 0]),  # wire type 6
        bytes([10, 2, 0]),  # longer than the message
        bytes([10, *[0xFF] * 9, 1]),  # 2^64 - 1 bytes
        bytes([9, 0, 0, 0]),  # 4 of 8 bytes
    ],
)
def test_what_is_no_protobuf_is_refused(message: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        list(fields(memoryview(message)))


def test_a_budget_is_shared_and_kept() -> None:
    budget, message = FieldBudget(5), memoryview(bytes([8, 1] * 3))
    assert len(list(fields(message, budget))) == 3
    with pytest.raises(ValueError, match="more fields than are read"):
        list(fields(message, budget))
    with pytest.raises(ValueError, match="more fields than are read"):
        list(packed(memoryview(bytes(9)), FieldBudget(8)))
