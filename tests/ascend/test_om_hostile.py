""".om files that mean harm are answered with a record or a coded error, in little memory."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quantflow.artifacts.om_description import OmDescription
from quantflow.ascend import om_model, om_partitions
from quantflow.ascend.om_file import describe_om, read_om_header
from quantflow.ascend.protobuf_wire import FieldBudget
from quantflow.errors import QuantflowError

from .om_builder import MESSAGES, model_message, om_file, tensor

DEFINITION = model_message({"soc_version": b"Ascend310P3", "n": 3}).SerializeToString()
VALID = {legacy: om_file([(1, b"w" * 30), (0, DEFINITION)], legacy=legacy) for legacy in (0, 1)}
SIZES = [2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1]
MEGABYTE = 2**20


def answer(tmp_path: Path, content: bytes) -> OmDescription | None:
    """What is said of a file; None where it is refused, which must be with QF702."""
    path = tmp_path / "model.om"
    path.write_bytes(content)
    try:
        described = describe_om(path)
    except QuantflowError:
        for reader in (describe_om, read_om_header):
            with pytest.raises(QuantflowError, match="QF702 not a complete"):
                reader(path)
        return None
    assert (described.model is None) == bool(described.not_read)
    assert read_om_header(path).length == described.size - 256
    described.to_json().encode()
    return described


def reason(tmp_path: Path, content: bytes) -> str:
    """Why the model definition of a file with a sound header is not read."""
    described = answer(tmp_path, content)
    assert described and described.model is None and described.name == "net"
    return described.not_read


@pytest.mark.parametrize("legacy", [False, True])
def test_every_truncation_is_refused(tmp_path: Path, legacy: bool) -> None:
    content = VALID[legacy]
    assert answer(tmp_path, content)
    for size in range(len(content)):
        assert answer(tmp_path, content[:size]) is None


@pytest.mark.parametrize("size", SIZES)
def test_sizes_beyond_the_file_are_told_in_words(tmp_path: Path, size: int) -> None:
    legacy = size < 2**32
    for place in ((0, size), (size, 4), (size, size)):
        content = om_file([(0, DEFINITION)], places=[place], legacy=legacy)
        assert "ends at" in reason(tmp_path, content)
    if legacy:
        content = om_file([(0, DEFINITION)], count=size)
        assert "more than 1024" in reason(tmp_path, content)
    header = bytearray(VALID[False])
    header[184:192] = struct.pack("<Q", size)
    assert answer(tmp_path, bytes(header)) is None


def test_a_table_must_be_whole_and_its_partitions_apart(tmp_path: Path) -> None:
    two = [(1, b"w" * 30), (0, DEFINITION)]
    lying = om_file(two, places=[(0, 31), (30, len(DEFINITION))])
    assert reason(tmp_path, lying) == "partitions of types 1 and 0 overlap"
    assert reason(tmp_path, om_file([(0, b"")], count=1024)).startswith("it ends after")
    assert reason(tmp_path, om_file([])) == "it has no partition with a model definition"
    assert reason(tmp_path, om_file([(1, b"w")])) == "it has no partition with a model definition"


def test_a_definition_cut_short_is_told_and_its_partitions_are_listed(tmp_path: Path) -> None:
    content = om_file([(1, b"w"), (0, DEFINITION[:-1])])
    described = answer(tmp_path, content)
    assert described and described.model is None and described.soc_version is None
    assert [x.type for x in described.partitions] == [1, 0]
    assert described.not_read.endswith("is longer than its message")


def graph(ops: bytes) -> bytes:
    model = MESSAGES["Model"]()
    model.graph.add().MergeFromString(ops)
    return model.SerializeToString()


def many_attributes(value: bytes) -> bytes:
    model = MESSAGES["Model"]()
    for index in range(200):
        entry = model.attr.add(key=b"%d" % index)
        entry.value.s = value
    return model.SerializeToString()


def outputs() -> bytes:
    model = MESSAGES["Model"]()
    op = model.graph.add().op.add(type=b"NetOutput", input=[b"\x1b" * 900] * 100)
    op.input_desc.extend([tensor(1, [1] * 64, layout=b"\x1b" * 100)] * 100)
    return model.SerializeToString()


def types() -> bytes:
    return graph(b"".join(b"\x32\x0a\x12\x08%08d" % i for i in range(5000)))


def nested() -> bytes:
    """Graphs in graphs, 60 deep, in the fields that hold messages."""
    message = b""
    for _ in range(60):
        message = b"\x3a" + varint(len(message)) + message
    return message * 200


def varint(value: int) -> bytes:
    head = bytearray()
    while value > 0x7F:
        head.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*head, value])


BOMBS: dict[str, Callable[[], bytes]] = {
    "empty attributes": lambda: b"\x5a\x00" * 20_000,
    "empty operators": lambda: graph(b"\x32\x00" * 20_000),
    "inputs": lambda: graph(b"\x32\x06\x12\x04Data" * 20_000),
    "types of operators": types,
    "more types than are read": lambda: graph(
        b"".join(b"\x32\x0a\x12\x08%08d" % i for i in range(10_100))
    ),
    "control characters": lambda: many_attributes(b"\x1b" * 1000),
    "bytes that are no text": lambda: many_attributes(b"\xff" * 1000),
    "characters that are escaped at length": lambda: many_attributes("\U000e0001".encode() * 250),
    "one long text": lambda: model_message({"a": b"\x1b" * MEGABYTE}).SerializeToString(),
    "outputs": outputs,
    "axes": lambda: graph(
        MESSAGES["Graph"](
            op=[{"type": b"Data", "output_desc": [tensor(1, [1] * 400_000)]}]
        ).SerializeToString()
    ),
    "messages in messages": nested,
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_memory_is_a_small_multiple_of_the_definition(tmp_path: Path, name: str) -> None:
    content = BOMBS[name]()
    (tmp_path / "model.om").write_bytes(om_file([(0, content)]))
    tracemalloc.start()
    try:
        describe_om(tmp_path / "model.om")
        read_om_header(tmp_path / "model.om")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 * len(content) + 2**19


@pytest.mark.parametrize("name", ["empty attributes", "empty operators", "inputs", "outputs"])
def test_no_part_of_a_definition_has_fields_beyond_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    content = om_file([(0, BOMBS[name]())])
    monkeypatch.setattr(om_model, "FieldBudget", lambda: FieldBudget(90))
    assert reason(tmp_path, content) == "it has more fields than are read"


def sparse(path: Path, kinds: list[int], sizes: list[int], last: bytes) -> None:
    """A file whose partitions but the last are holes."""
    contents = [(kind, b"") for kind in kinds]
    places = [(sum(sizes[:i]), size) for i, size in enumerate(sizes)]
    head = bytearray(om_file(contents, places=places))
    struct.pack_into("<Q", head, 184, len(head) - 256 + sum(sizes))
    with path.open("wb") as stream:
        stream.write(head)
        stream.seek(sum(sizes[:-1]), 1)
        stream.write(last)
        stream.truncate(len(head) + sum(sizes))


def test_of_a_large_file_only_the_definition_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.om"
    sparse(path, [1, 0], [5 * 2**30, len(DEFINITION)], DEFINITION)
    tracemalloc.start()
    described = describe_om(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert described.soc_version == "Ascend310P3" and described.size > 5 * 2**30
    assert peak < MEGABYTE


def test_a_definition_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.om"
    limit = om_partitions.MAX_MODEL_DEFINITION
    sparse(path, [0], [limit + 1], b"")
    tracemalloc.start()
    described = describe_om(path)
    assert read_om_header(path).soc_version is None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert f"{limit + 1} bytes, more than the {limit}" in described.not_read
    assert described.name == "net" and len(described.partitions) == 1
    assert peak < MEGABYTE


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=600), head=st.sampled_from([0, 4, 8, 12, 256, 300]))
def test_any_bytes_are_answered(tmp_path: Path, content: bytes, head: int) -> None:
    answer(tmp_path, VALID[False][:head] + content)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300), st.sampled_from([0, 1, 2]), st.booleans())
def test_any_bytes_as_a_definition_are_answered(
    tmp_path: Path, content: bytes, kind: int, legacy: bool
) -> None:
    described = answer(tmp_path, om_file([(kind, content)], legacy=legacy))
    assert described and described.partitions[0].size == len(content)


HOSTILE = st.sampled_from([0, 1, *SIZES, 2**64 - 256, 2**32 - 256])


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_files_are_answered(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(VALID[data.draw(st.booleans())])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        kind = data.draw(st.sampled_from(["flip", "size", "cut", "splice", "repeat"]))
        other = data.draw(st.integers(0, len(content)))
        if kind == "flip":
            content[place] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "size":
            content[place : place + 8] = struct.pack("<Q", data.draw(HOSTILE))
        elif kind == "cut":
            del content[place : place + data.draw(st.integers(1, 40))]
        elif kind == "splice":
            content[place:place] = VALID[True][other : other + 40]
        else:
            content += content[place : place + 40]
        if not content:
            return
    if data.draw(st.booleans()) and len(content) >= 256:  # the length is right again
        content[184:192] = struct.pack("<Q", len(content) - 256)
    answer(tmp_path, bytes(content))
