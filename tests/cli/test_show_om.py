"""`quantflow show FILE.om`, in a directory with neither a run nor a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from quantflow.cli.show import VIEW_NAMES
from tests.ascend.om_builder import model_message, om_file
from tests.cli.conftest import Call

COMMAND = "atc --model=net.onnx --input_shape=" + "x:1,16;" * 60


@pytest.fixture
def om(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    attributes = {"soc_version": b"Ascend310P3", "atc_version": b"8.1", "streams": 2,
                  "atc_cmdline": COMMAND.encode()}  # fmt: skip
    content = om_file([(1, b"w" * 3000), (0, model_message(attributes).SerializeToString())])
    Path("net.om").write_bytes(content)
    return Path("net.om")


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_header_partitions_tensors_operators_and_attributes_are_shown(call: Call, om: Path) -> None:
    answer = call("show", om)
    assert answer.code == 0 and answer.err == ""
    for row in (
        "chip Ascend310P3",
        "atc version 8.1",
        "shapes static",
        "1 weights 312 3,000",
        "input x float16 (1, 16) ND",
        "input mask int64 (1, 16) ND",
        "output scores float32 (1, 4) ND",
        "Data 2",
        "streams 2",
    ):
        assert row.split() in rows(answer.out)
    assert f"atc_cmdline: {COMMAND}\n" in answer.out
    assert rows(answer.out).index(["Data", "2"]) < rows(answer.out).index(["MatMulV2", "1"])


def test_all_of_it_is_json_too(call: Call, om: Path) -> None:
    tree = call("show", om, "--json").json
    assert tree["soc_version"] == "Ascend310P3" and tree["not_read"] == ""
    assert tree["partitions"][0]["size"] == 3000
    assert tree["model"]["attributes"]["atc_cmdline"] == COMMAND
    assert tree["model"]["inputs"][0] == {
        "name": "x", "dtype": "float16", "shape": [1, 16], "layout": "ND"
    }  # fmt: skip


def test_rows_are_limited_but_not_those_of_the_header(call: Call, om: Path) -> None:
    out = call("show", om, "--limit", "1").out
    assert "1 of 4 rows; --limit 4 shows all." in out  # inputs and outputs
    assert ["encrypted", "no"] in rows(out) and ["NetOutput", "1"] not in rows(out)


def test_what_cannot_be_read_is_said_beside_the_header(call: Call, om: Path) -> None:
    om.write_bytes(om_file([(0, b"\x08")]))
    answer = call("show", om)
    assert answer.code == 0 and ["model", "net"] in rows(answer.out)
    assert "not everything was read: unfinished number" in answer.out
    assert call("show", om, "--json").json["model"] is None


def test_text_in_the_file_does_not_steer_the_terminal(call: Call, om: Path) -> None:
    hostile = {"atc_cmdline": b"\x1b[2J", "a\x1b": b"\x9b31m"}
    om.write_bytes(om_file([(0, model_message(hostile).SerializeToString())]))
    for answer in (call("show", om), call("show", om, "--json")):
        assert answer.code == 0 and "\x1b" not in answer.out and "\x9b" not in answer.out


def test_errors_have_codes(call: Call, om: Path) -> None:
    om.write_bytes(om.read_bytes()[:-1])
    broken = call("show", om)
    assert broken.code == 4 and "QF702" in broken.err and "bytes and" in broken.err
    missing = call("show", "other.om", "--json")
    assert missing.code == 2 and missing.json["errors"][0]["code"] == "QF104"
    Path("folder.om").mkdir()
    assert "QF104" in call("show", "folder.om").err
    layered = call("show", om, "--layer", "fc")
    assert layered.code == 2 and "QF103" in layered.err


def test_a_wrong_view_is_answered_with_all_of_them(call: Call) -> None:
    error = call("show", "layer").err
    assert all(repr(name) in error for name in VIEW_NAMES) and ".om" in error
    assert all(name in call("show", "--help").out for name in VIEW_NAMES)
    assert "VIEW|FILE.om" in call("show").err
