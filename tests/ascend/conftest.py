"""A small export of stage 4 and a configuration to convert it with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import pytest

from quantflow.artifacts.export_record import BucketFiles, ExportRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.ranges_record import Island
from quantflow.config import LoadedConfig, check_config

DEPLOY = """<ir_version: 8, opset_import: ["" : 17]>
g (float[BATCH, 4] x) => (float[BATCH, 3] y)
<int8[4, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, uint64[1] s = {1056964608}> {
  [quant] xq = AscendQuant <scale: float = 10.0, offset: float = 0.0, dst_type = "INT8"> (x)
  [fc] m = MatMul (xq, w)
  [dequant] d = AscendDequant <dtype = 0> (m, s)
  [norm] y = Softmax (d)
}"""


FLOAT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[BATCH, 4] x) => (float[BATCH, 3] y)
<float[4, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> {
  [fc] d = MatMul (x, w)
  [norm] y = Softmax (d)
}"""


@dataclass(frozen=True)
class Export:
    """What stage 4 left, and where stage 5 is to write."""

    record: ExportRecord
    directory: Path
    out: Path


Configure = Callable[..., LoadedConfig]


@pytest.fixture
def export(tmp_path: Path) -> Export:
    directory, out = tmp_path / "40_onnx", tmp_path / "50_om"
    directory.mkdir()
    out.mkdir()
    (directory / "keep_dtype.txt").write_text("norm\n")
    island = Island(node="norm", op_type="Softmax", tensor="y", absmax=1e5)
    plan = PrecisionPlan(policy="none", groups={}, islands=(island,))
    plan.write(directory / "plan.json")
    buckets = []
    for batch in (1, 8):
        name = f"deploy_batch{batch}.onnx"
        text = DEPLOY.replace("BATCH", str(batch))
        onnx.save(onnx.parser.parse_model(text), directory / name)
        twin = onnx.parser.parse_model(FLOAT.replace("BATCH", str(batch)))
        onnx.save(twin, directory / f"float_batch{batch}.onnx")
        buckets.append(
            BucketFiles(
                name=f"batch{batch}",
                dims={"batch": batch},
                input_shapes={"x": (batch, 4)},
                deploy=name,
                float_twin=f"float_batch{batch}.onnx",
                qdq="qdq.onnx",
                keep_dtype="keep_dtype.txt",
                op_types={"AscendQuant": 1, "AscendDequant": 1, "MatMul": 1, "Softmax": 1},
            )
        )
    record = ExportRecord(
        opset=17,
        int8_mac_fraction=1.0,
        boundaries=2,
        layers=(),
        buckets=tuple(buckets),
        amct_record="amct.txt",
    )
    return Export(record, directory, out)


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    def make(*, options: dict[str, Any] | None = None, **atc: Any) -> LoadedConfig:
        tree = {
            "model": {
                "factory": "nets:make",
                "inputs": {"x": {"shape": ["batch", 4]}},
                "outputs": ["y"],
            },
            "set": {"candidates": {"kind": "function", "function": "nets:rows"}},
            "atc": {"executable": "atc-of-this-test", "options": options or {}, "probes": False}
            | atc,
        }
        return check_config(tree, base=tmp_path)

    return make
