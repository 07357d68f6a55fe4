"""AMCT records that mean harm are read or refused with QF545, in bounded time and memory."""

from __future__ import annotations

import contextlib
import tracemalloc
import warnings

import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.errors import QuantflowError
from quantflow.export.amct_record import AmctEntry, read_record
from quantflow.export.text_proto import MAX_STRING
from tests.export.test_amct_record import MESSAGE

RECORD = """# factors
record {
  key: "block/a\\303\\244"
  value { scale_d: 0.5 offset_d: -128 scale_w: 1e-2 offset_w: 0 scale_w: .25 offset_w: 0 }
}
record { key: 'b' value { scale_d: 1 offset_d: 0 } }
"""
LONG = 10_000_000


def answer(text: str) -> dict[str, AmctEntry] | str:
    """The entries, or what the one coded error says."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return read_record(text)
        except QuantflowError as error:
            (problem,) = error.problems
    assert problem.code == "QF545" and len(str(problem)) < 400
    assert str(problem).isprintable() or "\n  where: line " in str(problem)
    return problem.what


def with_scale(text: str) -> str:
    return RECORD.replace("scale_d: 0.5", f"scale_d: {text}")


def with_offset(text: str) -> str:
    return RECORD.replace("offset_d: -128", f"offset_d: {text}")


LARGE = {
    "unfinished string": '"' + "a" * LONG,
    "unfinished string of escapes": '"' + r"\a" * (LONG // 2),
    "unfinished string, other quote": "'" + '"' * LONG,
    "long key": f'record {{ key: "{"a" * LONG}" }}',
    "long key of escapes": f'record {{ key: "{chr(92)}377{"a" * LONG}" }}',
    "long name": "a" * LONG,
    "long field": "a" * LONG + ": 1",
    "nesting": "a{" * (LONG // 2),
    "nesting without end": "a{a{" + "}" * LONG,
    "digits": with_offset("9" * LONG),
    "digits of a scale": with_scale("9" * LONG),
    "digits of an exponent": with_scale("1e" + "9" * LONG),
    "signs": with_scale("-" * LONG),
    "dots": with_scale("1" + "." * LONG),
    "quotes": "'" * 1001 + "\n" * LONG,
}


@pytest.mark.parametrize("name", LARGE)
def test_ten_megabytes_are_refused_in_little_memory(name: str) -> None:
    text = LARGE[name]
    tracemalloc.start()
    said = answer(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(said, str)
    assert peak < 60_000_000  # copies of a token; a regular expression's stack was 1.3 GB


@pytest.mark.parametrize("filler", [" ", "\n", ",", ";", "#\n", "# " + "a" * 998 + "\n"])
def test_what_stands_between_tokens_may_be_long(filler: str) -> None:
    assert answer(filler * (1_000_000 // len(filler)) + RECORD) == read_record(RECORD)


@pytest.mark.parametrize(
    "text",
    ["1e999999", "1e39", "-1e999999", "1e-50", "0", "nan", "inf", "-inf", "0x10", "1_0", "٣",
     "1e", "e1", ".", "+1", "--1", "1.2.3", "9" * 100_000, "0." + "0" * 100_000 + "1"],
)  # fmt: skip
def test_numbers_that_are_no_scales_are_refused(text: str) -> None:
    assert isinstance(answer(with_scale(text)), str)


@pytest.mark.parametrize(
    "text",
    ["9" * 100_000, "-" + "9" * 100_000, "1" + "0" * 4300, "010", "0x10", "1_0", "٣", "+1", "1.0",
     "1e1", "-", "--1", "128", "-129", "2147483648", "18446744073709551616"],
)  # fmt: skip
def test_numbers_that_are_no_offsets_are_refused(text: str) -> None:
    assert isinstance(answer(with_offset(text)), str)


@pytest.mark.parametrize("text", ["1", "1.", ".5", "0.5", "1e-5", "1E+5", "3e38", "1e-45"])
def test_scales_are_those_that_protobuf_reads(text: str) -> None:
    read = read_record(with_scale(text))["block/aä"].scale_d
    assert read == text_format.Parse(with_scale(text), MESSAGE()).record[0].value.scale_d


@pytest.mark.parametrize("key", ["a\\x1b[2J", "\\033[2J", "\\n\\t\\r\\000", "\\\\ \\\" \\'", "ä"])
def test_escapes_are_those_that_protobuf_reads(key: str) -> None:
    text = RECORD.replace("block/a\\303\\244", key)
    assert next(iter(read_record(text))) == text_format.Parse(text, MESSAGE()).record[0].key


@pytest.mark.parametrize("key", ["\ud800", "\\377", "\\xff", "a" * MAX_STRING])
def test_keys_that_are_no_text_or_too_long_are_refused(key: str) -> None:
    assert isinstance(answer(f'record {{ key: "{key}" value {{ scale_d: 1 offset_d: 0 }} }}'), str)


def test_a_message_repeats_no_control_character() -> None:
    twice = 'record { key: "\\033[2J" value { scale_d: 1 offset_d: 0 } }\n' * 2
    assert answer(twice) == "not an AMCT record: layer '\\x1b[2J' stands twice"


ANY_TEXT = st.text(st.characters(), max_size=80)  # lone surrogates among them
PIECES = st.lists(
    st.sampled_from(["record", "key", "value", "scale_d", "offset_d", "scale_w", "offset_w", "{",
                     "}", ":", '"a"', "'b'", "1", "-1", "0.5", "1e999999", "#", "\n", ",", '"',
                     "\\", "\x00", "\x1b", "\ud800", " "]),
    max_size=40,
)  # fmt: skip


@settings(max_examples=200)
@given(ANY_TEXT | PIECES.map("".join) | PIECES.map(" ".join))
def test_any_text_is_answered(text: str) -> None:
    answer(text)


@settings(max_examples=200)
@given(st.data())
def test_damaged_records_are_refused_or_read_as_protobuf_reads_them(data: st.DataObject) -> None:
    text = RECORD
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = start + data.draw(st.integers(0, 20))
        other = data.draw(st.integers(0, len(text)))
        text = text[:start] + data.draw(ANY_TEXT | st.just(text[other : other + 20])) + text[end:]
    entries = answer(text)
    if isinstance(entries, str):
        return
    with contextlib.suppress(text_format.ParseError, UnicodeError):
        message = text_format.Parse(text, MESSAGE())
        assert entries == {
            x.key: AmctEntry(x.value.scale_d, x.value.offset_d, tuple(x.value.scale_w),
                             tuple(x.value.offset_w))
            for x in message.record
        }  # fmt: skip
