"""A reader of protobuf's text format: fields that hold a scalar or a message, nothing more.

(Lists in brackets, extensions and angle brackets are not read: no AMCT record has them.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from quantflow.errors import fail
from quantflow.printable import printable

MAX_DEPTH = 16
"""Messages nested deeper are refused, since the text may come from anywhere."""
MAX_STRING = 65_536
"""Characters of the longest string literal that is read, quotes and escapes included."""
LONGEST_EXCERPT = 60
"""Characters of a token that a message repeats."""

_TOKEN = re.compile(
    r"""(?:\s+|\#[^\n]*|[,;])*+
        ( "[^"\\\n]*+(?:\\.[^"\\\n]*+)*+" | '[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'
        | [{}:] | [-+.\w]++ | \Z )""",
    re.VERBOSE,
)
"""What may stand between tokens, and a token; at the end, an empty one. Nothing is tried twice."""

_ESCAPE = re.compile(rb"\\([0-7]{1,3}|[xX][0-9a-fA-F]{1,2}|.)", re.DOTALL)
_CHARACTERS = {"n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11} | {
    character: ord(character) for character in "\\'\"?"
}
"""What may stand behind a backslash, and the byte it means."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its name and its scalar, as text, or the fields of its message."""

    name: str
    value: str | tuple[Field, ...]


def parse_text_proto(text: str) -> tuple[Field, ...]:
    """Parse a message in text format.

    Raises:
        QuantflowError: QF545, naming the line.
    """
    tokens = _Tokens(text)
    fields = list[Field]()
    while tokens.peek():
        fields.append(_field(tokens, depth=1))
    return tuple(fields)


def excerpt(text: str) -> str:
    """The beginning of a token in quotes, for messages: tokens may be of any length."""
    return f"'{printable(text, LONGEST_EXCERPT)}'"


def quote(text: str) -> str:
    """A string literal: printable ASCII as it is, every other byte of the UTF-8 form in octal."""
    body = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}"
        for byte in text.encode()
    )
    return f'"{body}"'


class _Tokens:
    """The tokens of a text, one ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._position = 0
        self._next = next(self._tokens, "")

    def _split(self) -> Iterator[str]:
        while True:
            match = _TOKEN.match(self._text, self._position)
            if match is None:
                self.refuse("unexpected character")
            self._position = match.end()
            if not match[1]:
                return
            yield match[1]

    def peek(self) -> str:
        """The next token, or nothing at the end."""
        return self._next

    def take(self, wanted: str = "") -> str:
        """Consume the next token, which must be `wanted` if that is given."""
        token = self._next
        if not token or (wanted and token != wanted):
            found = excerpt(token) if token else "the end"
            self.refuse(f"expected {wanted or 'more'!r}, found {found}")
        self._next = next(self._tokens, "")
        return token

    def refuse(self, what: str) -> NoReturn:
        """Stop, naming the line."""
        line = self._text.count("\n", 0, self._position) + 1
        fail("QF545", f"not a readable text proto: {what}", where=f"line {line}")


def _field(tokens: _Tokens, depth: int) -> Field:
    name = tokens.take()
    if not re.fullmatch(r"[A-Za-z_]\w*+", name):
        tokens.refuse(f"no field can start with {excerpt(name)} here")
    if depth > MAX_DEPTH:
        tokens.refuse(f"messages are nested deeper than {MAX_DEPTH}")
    has_colon = tokens.peek() == ":"
    if has_colon:
        tokens.take(":")
    if tokens.peek() == "{":
        tokens.take("{")
        fields = list[Field]()
        while tokens.peek() != "}":
            fields.append(_field(tokens, depth + 1))
        tokens.take("}")
        return Field(name, tuple(fields))
    value = tokens.take()
    if not has_colon or value in "{}:":
        tokens.refuse(f"field {excerpt(name)} has no value")
    return Field(name, _unquote(value, tokens) if value[0] in "\"'" else value)


def _unquote(literal: str, tokens: _Tokens) -> str:
    def replace(match: re.Match[bytes]) -> bytes:
        code = match.group(1).decode("latin-1")
        if code[0] in "01234567":
            return bytes([int(code, 8) & 0xFF])
        if code[0] in "xX" and len(code) > 1:
            return bytes([int(code[1:], 16)])
        if code not in _CHARACTERS:
            tokens.refuse(f"{excerpt(literal)} has an unknown escape")
        return bytes([_CHARACTERS[code]])

    if len(literal) > MAX_STRING:
        tokens.refuse(f"a string of {len(literal):,} characters, more than {MAX_STRING:,}")
    try:
        return _ESCAPE.sub(replace, literal[1:-1].encode()).decode()
    except UnicodeError:
        tokens.refuse(f"{excerpt(literal)} is not UTF-8")
