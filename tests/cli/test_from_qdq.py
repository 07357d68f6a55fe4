"""`quantflow from-qdq`: from a file that atc refuses to one that it compiles, in one command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from quantflow.errors import fail
from quantflow.export.amct_record import read_record
from quantflow.graph.model_io import load_model
from quantflow.target.lint import lint
from tests.cli.conftest import Call
from tests.graph.models import build
from tests.quantized.qdq_models import (
    INT8,
    QOPERATOR,
    SCHEMES,
    Scheme,
    integers,
    normal,
    one_layer,
    quantized,
    scalar,
    write_cnn,
    write_mlp,
)

REFUSED = {
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul",
    "ConvInteger", "MatMulInteger", "QGemm", "QLinearAdd",
}  # fmt: skip


def saved(folder: Path, model: onnx.ModelProto) -> Path:
    path = folder / "file.onnx"
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("scheme", [SCHEMES[0], SCHEMES[3], QOPERATOR], ids=str)
def test_the_deploy_model_has_none_of_the_operators_that_atc_refuses(
    tmp_path: Path,
    call: Call,
    scheme: Scheme,
) -> None:
    path = quantized(write_cnn(tmp_path), scheme, (4, 3, 8, 8))
    before = [x for x in lint(load_model(path), "2026") if x.level == "error"]
    assert any("E16002" in x.what and "E19010" in x.what for x in before)
    answer = call("from-qdq", path, "--output", tmp_path / "out", "-q")
    assert answer.code == 3, answer.err
    (deploy,) = (tmp_path / "out" / "40_onnx").glob("deploy_*.onnx")
    model = load_model(deploy)
    types = {node.op_type for node in model.graph}
    assert not types & REFUSED
    assert {"AscendQuant", "AscendDequant"} <= types
    assert [x for x in lint(model, "2026") if x.level == "error"] == []


def test_everything_that_is_needed_to_convert_elsewhere_is_written(
    tmp_path: Path,
    call: Call,
) -> None:
    path = quantized(write_mlp(tmp_path), SCHEMES[0], (4, 16))
    np.savez(tmp_path / "samples.npz", x=normal(16, 16, seed=4))
    answer = call(
        *("from-qdq", path, "-o", tmp_path / "out", "--samples", tmp_path / "samples.npz"),
        *("--bucket", "batch=1", "--bucket", "batch=8", "--chip", "Ascend310B1", "-q"),
    )
    assert answer.code == 3
    assert "3 of 3 layers INT8" in answer.out and "given inputs" in answer.out
    plan = json.loads((tmp_path / "out/50_om/conversions.json").read_text())
    assert plan["soc_version"] == "Ascend310B1"
    names = [entry["name"] for entry in plan["conversions"] if entry["kind"] != "probe"]
    assert names == ["batch1", "batch1_fp16", "batch8", "batch8_fp16"]
    for entry in plan["conversions"]:
        assert all((tmp_path / "out/50_om" / name).is_file() for name in entry["files"])
        assert f"deploy_{entry['bucket']}.onnx" in entry["files"] or entry["kind"] != "int8"
    assert (tmp_path / "out/50_om/convert.py").is_file()
    amct = read_record((tmp_path / "out/40_onnx/amct_record.txt").read_text())
    assert list(amct) == ["fc0", "fc1", "head"]
    record = json.loads((tmp_path / "out/from_qdq.json").read_text())
    assert record["verdict"] == "pass"
    assert [(x["bucket"], x["samples"]) for x in record["agreement"]] == [
        ("batch1", 16), ("batch8", 16)
    ]  # fmt: skip
    assert all(x["cosine_mean"] > 0.9999 for x in record["agreement"])


def test_as_json_the_records_are_one_object(tmp_path: Path, call: Call) -> None:
    answer = call("from-qdq", saved(tmp_path, one_layer()), "-o", tmp_path / "o", "--json", "-q")
    assert answer.code == 3
    assert answer.json["from_qdq"]["refused_before"] == {
        "DequantizeLinear": 2, "QuantizeLinear": 1
    }  # fmt: skip
    assert answer.json["from_qdq"]["refused_after"] == {}
    assert answer.json["export"]["layers"][0]["scale_d"] == float(np.float32(0.02))


def test_the_directory_is_one_that_show_and_report_read(
    tmp_path: Path,
    call: Call,
) -> None:
    call("from-qdq", saved(tmp_path, one_layer()), "-o", tmp_path / "o", "-q")
    assert "n_y" in call("show", "factors", "--run", tmp_path / "o").out
    assert call("report", "--run", tmp_path / "o").code == 0


def test_a_second_run_replaces_the_first_and_a_foreign_directory_is_refused(
    tmp_path: Path,
    call: Call,
) -> None:
    path, out = saved(tmp_path, one_layer()), tmp_path / "o"
    assert call("from-qdq", path, "-o", out, "-q").code == 3
    first = (out / "40_onnx/export.json").read_bytes()
    assert call("from-qdq", path, "-o", out, "-q").code == 3
    assert (out / "40_onnx/export.json").read_bytes() == first
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    answer = call("from-qdq", path, "-o", tmp_path / "mine", "-q")
    assert answer.code == 2 and "QF108" in answer.err


def test_a_file_for_a_directory_is_refused(tmp_path: Path, call: Call) -> None:
    path = saved(tmp_path, one_layer())
    for output in (path, Path("/dev/null"), path / "below"):
        answer = call("from-qdq", path, "-o", output, "-q")
        assert answer.code in (2, 3) and str(output) in answer.err, answer.err
        assert "QF108" in answer.err or "QF604" in answer.err


def test_what_is_carried_off_and_converted_is_written_last(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        fail("QF213", "planted")

    path, out = saved(tmp_path, one_layer()), tmp_path / "o"
    assert call("from-qdq", path, "-o", out, "-q").code == 3
    monkeypatch.setattr("quantflow.stages.from_qdq.outcome", stop)
    assert call("from-qdq", path, "-o", out, "-q").code == 2
    assert (out / "40_onnx").exists() and not (out / "50_om").exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--bucket", "batch"], "QF109"),
        (["--bucket", "n=0"], "QF103"),
        (["--chip", "310P3"], "QF110"),
        (["--cann", "9"], "QF103"),
        (["--samples", "none.npz"], "QF302"),
    ],
)
def test_wrong_options_are_refused_in_words(
    tmp_path: Path,
    call: Call,
    arguments: list[str],
    code: str,
) -> None:
    path = saved(tmp_path, one_layer())
    answer = call("from-qdq", path, "-o", tmp_path / "o", "-q", *arguments)
    assert answer.code == 2 and code in answer.err, answer.err


def test_a_dimension_twice_in_a_bucket_is_refused(tmp_path: Path, call: Call) -> None:
    path = quantized(write_mlp(tmp_path), SCHEMES[0], (4, 16))
    answer = call("from-qdq", path, "-o", tmp_path / "o", "-q", "--bucket", "batch=4, batch=5")
    assert answer.code == 2 and "QF109 'batch' is given twice" in answer.err
    assert "where: --bucket batch=4, batch=5" in answer.err


@pytest.mark.parametrize("wrong", ["batch=0", "batch=4,nothing=5"])
def test_a_bucket_that_is_wrong_is_named_as_it_was_given(
    tmp_path: Path, call: Call, wrong: str
) -> None:
    path = quantized(write_mlp(tmp_path), SCHEMES[0], (4, 16))
    options = ["--bucket", "batch=1", "--bucket", wrong]
    answer = call("from-qdq", path, "-o", tmp_path / "o", "-q", *options)
    assert answer.code == 2 and f"where: --bucket {wrong}\n" in answer.err, answer.err


def test_a_float_model_is_sent_to_run(tmp_path: Path, call: Call) -> None:
    answer = call("from-qdq", write_mlp(tmp_path), "-o", tmp_path / "o", "-q")
    assert answer.code == 2 and "QF232" in answer.err and "quantflow run" in answer.err
    assert not (tmp_path / "o").exists()


def test_a_free_dimension_without_a_size_is_named(tmp_path: Path, call: Call) -> None:
    path = quantized(write_mlp(tmp_path), SCHEMES[0], (4, 16))
    answer = call("from-qdq", path, "-o", tmp_path / "o", "-q", "--bucket", "length=4")
    assert answer.code == 2 and "QF206" in answer.err and "batch" in answer.err


def test_layers_that_stay_float_are_listed_with_the_reason(
    tmp_path: Path,
    call: Call,
) -> None:
    model = build(
        "(float[4,8] x) => (float[4,5] y) { xq = QuantizeLinear(x, xs, xz) "
        "xd = DequantizeLinear(xq, xs, xz) wd = DequantizeLinear(wq, ws) h = MatMul(xd, wd) "
        "r = Tanh(h) vd = DequantizeLinear<axis=0>(vq, vs) y = MatMul(r, vd) }",
        {"xs": scalar(0.1), "xz": scalar(0, INT8), "wq": integers(8, 6).astype(INT8),
         "ws": scalar(0.01), "vq": integers(6, 5).astype(INT8),
         "vs": np.float32([1, 2, 3, 4, 5, 6]) / 100},
    )  # fmt: skip
    answer = call("from-qdq", saved(tmp_path, model), "-o", tmp_path / "o", "-q")
    assert "n_y" in answer.out and "its input is float in the quantized file" in answer.out
    assert "1 of 2 layers INT8" in answer.out
