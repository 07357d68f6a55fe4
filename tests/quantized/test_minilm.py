"""MiniLM quantized by onnxruntime, and what from-qdq makes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnxruntime.quantization import (  # noqa: TID251
    CalibrationDataReader,
    QuantType,
    quantize_static,
)

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.artifacts.sample_set import SampleSet
from quantflow.config import load_config
from quantflow.config.loading import check_config
from quantflow.stages.from_qdq import from_qdq
from quantflow.stages.pipeline import STAGES, run_stage
from quantflow.stages.stage import Context

from .qdq_models import initializers

CONFIG = Path(__file__).parents[2] / "calibration_sets/minilm_wikipedia/quantflow.toml"

pytestmark = pytest.mark.slow


class Texts(CalibrationDataReader):
    """Eight texts of the calibration set at a time."""

    def __init__(self, folder: Path) -> None:
        texts = list(SampleSet(folder).first(16))
        parts = [texts[:8], texts[8:]]
        self._feeds = iter([{k: np.stack([x[k] for x in p]) for k in p[0]} for p in parts])

    def get_next(self) -> dict[str, np.ndarray] | None:  # type: ignore[override]
        return next(self._feeds, None)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("minilm")
    sizes = [f"set.{name}=16" for name in ("samples", "heldout_samples", "evaluation_samples")]
    loaded = load_config(CONFIG, [f'run.directory="{folder / "run"}"', *sizes])
    for stage in STAGES[:2]:
        run_stage(Context(loaded, RunDirectory(loaded.run_directory)), stage)
    texts = list(SampleSet(folder / "run/10_set/evaluation").first(16))
    np.savez(folder / "texts.npz", **{k: np.stack([x[k] for x in texts]) for k in texts[0]})
    return folder


EVERYTHING, INPUTS_OF_LAYERS = "everything", "inputs of layers"


@pytest.mark.parametrize("what", [INPUTS_OF_LAYERS, EVERYTHING])
def test_every_layer_keeps_its_scales_and_the_deploy_model_is_no_worse_than_the_file(
    project: Path, what: str
) -> None:
    path = project / f"{what}.onnx"
    record = ModelRecord.read(project / "run/00_model/model.json")
    only = what == INPUTS_OF_LAYERS
    quantize_static(
        project / "run/00_model/model.onnx",
        path,
        Texts(project / "run/10_set/calibration"),
        nodes_to_quantize=[layer.node for layer in record.layers] if only else None,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        extra_options={"OpTypesToExcludeOutputQuantization": ["MatMul"] if only else []},
    )
    tree = {
        "model": {"onnx": str(path)},
        "target": {"buckets": [{"batch": 8, "length": 128}]},
        "set": {"candidates": {"kind": "function", "function": "none:none"}},
    }
    loaded = check_config(tree, base=project)
    done = from_qdq(loaded, project / f"out of {what}", project / "texts.npz")
    assert done.record.int8_layers == 36 and done.record.float_layers == ()
    assert done.record.refused_after == {} and done.record.verdict == "pass"
    arrays = initializers(path)
    scales = {float(x) for k, x in arrays.items() if k.endswith("_scale") and not x.ndim}
    assert {entry.scale_d for entry in done.export.layers} <= scales
    (row,) = done.record.agreement
    assert row.deploy_to_float > 0.99
    assert row.deploy_to_float > row.file_to_float - 1e-3
    # Where all operators are quantized, the attention mask among them, the file is of no use.
    assert row.cosine_mean > 0.99 or not only
