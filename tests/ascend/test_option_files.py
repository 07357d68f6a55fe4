"""The files that options name: their form, and whether they name what the model has."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantflow.artifacts.om_record import Finding
from quantflow.ascend import option_files
from quantflow.ascend.mixlist_file import mixlist_findings, mixlist_types
from quantflow.ascend.option_files import travelling_name
from quantflow.ascend.precision_mode_file import precision_mode_findings, precision_modes
from quantflow.ascend.preflight import bucket_findings, common_findings

from .conftest import Configure, Export

MIXED = {"precision_mode": "allow_mix_precision"}


def of_files(configure: Configure, **options: str) -> list[Finding]:
    return list(common_findings(configure(options=options), int8=True))


def of_model(export: Export, configure: Configure, **options: str) -> list[Finding]:
    loaded = configure(options=options)
    return list(bucket_findings(loaded, export.record.buckets[0], export.directory, export.out))


def test_option_files_are_checked(configure: Configure, tmp_path: Path) -> None:
    (tmp_path / "ops.ini").write_text("[ByOpType]\nSoftmaxV2=high_precision\n")
    found = of_files(configure, op_precision_mode="ops.ini", insert_op_conf="none.cfg")
    places = {finding.where for finding in found if finding.level == "error"}
    assert places == {"atc.options.op_precision_mode", "atc.options.insert_op_conf"}


def test_what_is_no_text_file_of_fair_size_is_refused(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for a writer
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "large").write_text("x" * 101)
    monkeypatch.setattr(option_files, "LARGEST_FILE", 100)
    for name in ("folder", "pipe", "bytes", "large"):
        (found,) = of_files(configure, fusion_switch_file=name)
        assert found.level == "error" and "cannot be read" in found.what


GOOD_LISTS = [
    '{"black-list": {"to-add": ["SoftmaxV2"], "to-remove": []}, "white-list": {}}',
    '{"white-list": {"to-add": ["Add"], "to-remove": ["Mul"]}}',
    "{}",
]
BAD_LISTS = [
    "",
    "[]",
    "{",
    '{"black-list": {} // a comment\n}',
    '{"blacklist": {}}',
    '{"black-list": ["Add"]}',
    '{"black-list": {"add": ["Add"]}}',
    '{"black-list": {"to-add": "Add"}}',
    '{"black-list": {"to-add": [1]}}',
    '{"black-list": {"to-add": [""]}}',
    '{"black-list": {"to-add": ["Add"]}, "white-list": {"to-add": ["Add"]}}',
    "[" * 100_000,
]


@pytest.mark.parametrize("text", GOOD_LISTS)
def test_lists_of_the_manual_s_form_pass(text: str) -> None:
    assert list(mixlist_findings(text)) == []


@pytest.mark.parametrize("text", BAD_LISTS)
def test_other_lists_are_errors(text: str) -> None:
    found = list(mixlist_findings(text))
    assert found and all(f.level == "error" and f.fix and len(f.what) < 500 for f in found)


def test_the_lists_types_are_told() -> None:
    assert mixlist_types(GOOD_LISTS[1]) == ["Add", "Mul"]
    assert mixlist_types("no list") == []


# The form of the manual: sections, one name=mode a line, # first for a comment.
MODES = """SoftmaxV2 = high_precision
# Mul=high_precision
[ByNodeName]
fc=high_performance
 [ByOpType]
Add=keep_fp16
"""


def test_modes_are_read_as_atc_reads_them() -> None:
    assert list(precision_modes(MODES)) == [
        ("[ByOpType]", "SoftmaxV2", "high_precision"),
        ("[ByNodeName]", "fc", "high_performance"),
        ("[ByOpType]", "Add", "keep_fp16"),
    ]
    assert list(precision_mode_findings(MODES, int8=False)) == []


def test_high_precision_does_not_go_with_int8() -> None:
    (found,) = precision_mode_findings(MODES, int8=True)
    assert found.level == "error" and "INT8" in found.what
    commented = MODES.replace("SoftmaxV2", "#")
    assert list(precision_mode_findings(commented, int8=True)) == []


@pytest.mark.parametrize(
    "text",
    ["[ByNodename]\na=high_precision", "a=high_precison", "=high_precision", "high_precision"],
)
def test_lines_that_atc_ignores_are_warnings(text: str) -> None:
    (found,) = precision_mode_findings(text, int8=False)
    assert found.level == "warning" and found.fix


@given(st.text())
def test_any_text_is_read_to_its_end(text: str) -> None:
    list(precision_mode_findings(text, int8=True))
    if list(mixlist_findings(text)):
        assert mixlist_types(text) == []


names = st.lists(st.text(min_size=1, max_size=8), max_size=4)


@given(names, names)
def test_whatever_types_are_listed_come_back(black: list[str], white: list[str]) -> None:
    tree = {"black-list": {"to-add": black}, "white-list": {"to-remove": white}}
    assert mixlist_types(json.dumps(tree)) == [*black, *white]


def test_types_and_names_that_the_model_has_not_are_warnings(
    export: Export, configure: Configure, tmp_path: Path
) -> None:
    # The parser makes SoftmaxV2 `norm` of the Softmax (its table of renames).
    (tmp_path / "mix.json").write_text('{"black-list": {"to-add": ["SoftmaxV2", "Softmax"]}}')
    (found,) = of_model(export, configure, modify_mixlist="mix.json")
    assert found.level == "warning" and "'Softmax'" in found.what
    lines = "SoftmaxV2=keep_fp16\nAbs=keep_fp16\n[ByNodeName]\nnorm=keep_fp16\nnorms=keep_fp16\n"
    (tmp_path / "ops.ini").write_text(lines)
    found = of_model(export, configure, op_precision_mode="ops.ini")
    assert ["'Abs'" in found[0].what, "'norms'" in found[1].what, len(found)] == [True, True, 2]


@pytest.mark.parametrize(
    ("value", "unknown"),
    [("norm:0", []), ("y", []), ("fc:0;norm:0", []), ("Norm:0;fc:0", ["Norm"]), ("z", ["z"])],
)
def test_outputs_that_the_model_has_not_are_warnings(
    value: str, unknown: list[str], export: Export, configure: Configure
) -> None:
    found = of_model(export, configure, out_nodes=value)
    assert [f.what for f in found] == [
        f"{name!r} is no node and no tensor of the model (E10016)" for name in unknown
    ]


def test_files_travel_under_names_that_atc_takes() -> None:
    assert travelling_name("keep_dtype", Path("/a b/keep it.txt")) == "options/keep_dtype.txt"
    assert travelling_name("keep_dtype", Path("keep.t x;t")) == "options/keep_dtype"
