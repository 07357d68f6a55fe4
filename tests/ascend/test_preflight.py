"""Preflight: what atc would refuse is refused before it starts (C43)."""

from __future__ import annotations

import shutil
from collections import namedtuple
from pathlib import Path
from typing import Any

import onnx
import pytest

from quantflow.artifacts.om_record import Finding
from quantflow.ascend.error_hints import HINTS, error_codes, explain
from quantflow.ascend.preflight import bucket_findings, common_findings

from .conftest import Configure, Export


def errors(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.level == "error"]


def test_option_files_are_checked(configure: Configure, tmp_path: Path) -> None:
    (tmp_path / "ops.ini").write_text("[ByOpType]\nSoftmaxV2=high_precision\n")
    loaded = configure(options={"op_precision_mode": "ops.ini", "insert_op_conf": "none.cfg"})
    places = {finding.where for finding in common_findings(loaded, int8=True)}
    assert places == {"atc.options.op_precision_mode", "atc.options.insert_op_conf"}


def of_bucket(export: Export, configure: Configure, **changes: Any) -> list[Finding]:
    bucket = export.record.buckets[0].model_copy(update=changes)
    return list(bucket_findings(configure(), bucket, export.directory, export.out))


def test_a_good_bucket_has_no_findings(export: Export, configure: Configure) -> None:
    assert of_bucket(export, configure) == []


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"name": "batch=1"}, "letters, digits"),
        ({"input_shapes": {"x": (2, 4)}}, "input_shape"),
        ({"input_shapes": {"x": (1, 4), "z": (1,)}}, "input_shape"),
        ({"input_shapes": {"a:b": (1, 4)}}, "E10002"),
    ],
)
def test_names_and_shapes_must_be_what_atc_can_read(
    changes: dict[str, Any], word: str, export: Export, configure: Configure
) -> None:
    found = errors(of_bucket(export, configure, **changes))
    assert any(word in finding.what for finding in found)


@pytest.mark.parametrize(
    ("line", "matches"),
    [
        ("norm", True),
        ("fc", True),
        ("OpType::SoftmaxV2", True),
        ("OpType::BatchMatMulV2", True),
        ("Norm", False),
        ("norm_Softmax", False),
        ("OpType::Softmax", False),
        ("# a comment", False),
    ],
)
def test_keep_dtype_lines_must_match_a_node_after_the_parser(
    line: str, matches: bool, export: Export, configure: Configure
) -> None:
    (export.directory / "keep_dtype.txt").write_text(line + "\n")
    assert (of_bucket(export, configure) == []) == matches


def test_a_keep_dtype_of_the_user_and_islands_do_not_mix(
    export: Export, configure: Configure
) -> None:
    loaded = configure(options={"keep_dtype": "mine.txt"})
    bucket = export.record.buckets[0]
    found = errors(list(bucket_findings(loaded, bucket, export.directory, export.out)))
    assert any("islands" in finding.what for finding in found)


def test_a_person_s_own_file_of_types_is_checked_against_the_model(
    export: Export, configure: Configure, tmp_path: Path
) -> None:
    # C43: atc would say nothing of the second line.
    lines = ("norm::InputDtype:float32,OutputDtype:float32", "Norm::InputDtype:float32")
    (tmp_path / "mine.txt").write_text("\n".join(lines))
    loaded = configure(options={"customize_dtypes": "mine.txt"})
    bucket = export.record.buckets[0]
    (found,) = bucket_findings(loaded, bucket, export.directory, export.out)
    assert found.level == "warning" and "'Norm::" in found.what
    assert found.where == "batch1: atc.options.customize_dtypes"


def test_the_dialect_is_linted_before_atc(export: Export, configure: Configure) -> None:
    path = export.directory / "deploy_batch1.onnx"
    model = onnx.load(path)
    model.graph.node[0].attribute[1].CopyFrom(onnx.helper.make_attribute("offset", 0))
    onnx.save(model, path)
    (finding,) = errors(of_bucket(export, configure))
    assert "quant-attributes" in finding.what
    assert finding.where == "batch1: quant"


def test_a_qdq_model_is_refused_with_the_codes_atc_would_give(
    export: Export, configure: Configure
) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 4] x) => (float[1, 4] y) <float s = {0.1}, int8 z = {0}> {
      [q] xq = QuantizeLinear (x, s, z)
      [d] y = DequantizeLinear (xq, s, z)
    }"""
    onnx.save(onnx.parser.parse_model(text), export.directory / "deploy_batch1.onnx")
    found = errors(of_bucket(export, configure, keep_dtype=None))
    assert len(found) == 2
    assert all("E16002" in finding.what and "E19010" in finding.what for finding in found)


def test_an_unreadable_model_is_one_finding(export: Export, configure: Configure) -> None:
    (export.directory / "deploy_batch1.onnx").write_bytes(b"\xff\xff")
    assert len(errors(of_bucket(export, configure))) == 1


def test_a_full_disk_is_a_warning(
    export: Export, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")(1, 1, 10)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    (finding,) = of_bucket(export, configure)
    assert finding.level == "warning"


def test_error_codes_are_found_where_atc_writes_them() -> None:
    assert error_codes("E10001: [PID: 12] Value [x] is invalid. EZ3002 EH9999") == [
        "E10001",
        "EZ3002",
        "EH9999",
    ]
    assert error_codes("W11001: Op [Slice_29] misses; E100010 NAME_E10001") == []


def test_every_code_of_the_manual_has_a_hint() -> None:
    listed = """E10001 E10002 E10003 E10004 E10007 E10009 E10010 E10016 E10017 E10018 E10020 E10021
    E10022 E10035 E10036 E10040 E10041 E10054 E10055 E10056 E13000 E13001 E13002 E13003 E13009
    E13010 E16001 E16002 E19010 E19999 E20001 EZ3002 EZ3003 EZ9010 EH9999"""
    assert set(listed.split()) <= set(HINTS)
    assert explain(["E16002", "E55555"]).endswith("; E55555")


def test_the_opset_must_be_one_that_the_cann_version_reads(
    export: Export, configure: Configure
) -> None:
    # The deploy model has opset 17; AscendQuant is registered for 8 to 16 in CANN 8.0.
    loaded = configure()
    target = loaded.config.target.model_copy(update={"cann": "8.0"})
    older = loaded.model_copy(
        update={"config": loaded.config.model_copy(update={"target": target})}
    )
    bucket = export.record.buckets[0]
    found = errors(list(bucket_findings(older, bucket, export.directory, export.out)))
    assert any("[opset]" in finding.what and "16" in finding.what for finding in found)


def test_the_folder_of_the_conversion_need_not_exist_yet(
    export: Export, configure: Configure
) -> None:
    bucket, out = export.record.buckets[0], export.out / "not" / "yet"
    assert list(bucket_findings(configure(), bucket, export.directory, out)) == []
    assert not out.exists()
