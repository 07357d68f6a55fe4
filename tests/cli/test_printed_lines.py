"""Names from files cannot steer the terminal."""

from __future__ import annotations

import pytest

from quantflow.cli.output import print_sheets, remark, say
from quantflow.report.sheet import Sheet

HOSTILE = "\x1b[31mred\x1b]0;title\x07 \u202eturned"


def test_control_characters_are_shown_and_not_sent(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"first {HOSTILE}\nsecond 中文 é")
    remark(HOSTILE)
    print_sheets([Sheet("Title", ("name",), "l", ((HOSTILE,),))])
    found = capsys.readouterr()
    for text in found:
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
        assert "\\x1b[31mred\\x1b]0;title\\x07 \\u202eturned" in text
    assert "\nsecond 中文 é\n" in found.out
