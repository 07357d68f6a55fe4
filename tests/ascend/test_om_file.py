"""The .om header, against files written from the documented layout."""

from __future__ import annotations

import struct
from pathlib import Path

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quantflow.ascend.om_file import OmHeader, read_om_header
from quantflow.ascend.protobuf_wire import fields
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
        model_num=1,
        dynamic_shapes=False,
        soc_version="Ascend910B4-1",
    )


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
