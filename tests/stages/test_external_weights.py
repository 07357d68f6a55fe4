"""The path that models beyond 2 GB take, with a small one: every file's weights lie beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from quantflow.artifacts.comparison import Comparison
from quantflow.artifacts.digest import file_digest
from quantflow.artifacts.export_record import ExportRecord, ParityReport
from quantflow.artifacts.om_record import OmRecord
from quantflow.artifacts.ranges_record import RangesRecord
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.config import LoadedConfig, load_config
from quantflow.errors import QuantflowError
from quantflow.graph.from_onnx import external_files
from quantflow.graph.model_io import load_model
from quantflow.stages.pipeline import STAGES, run_stage
from quantflow.stages.stage import Context
from quantflow.target.lint import lint

pytestmark = pytest.mark.slow

CONFIG = """
[model]
onnx = "model.onnx"
[set]
samples = 12
heldout_samples = 10
evaluation_samples = 10
[set.candidates]
kind = "npz"
path = "candidates.npz"
[plan]
samples = 8
[target]
buckets = [{ batch = 1 }, { batch = 4 }]
[run]
directory = "run"
"""

LIMITS = (
    "graph.model_io.EXTERNAL_DATA_THRESHOLD",
    "export.bucket_files.ONE_FILE_LIMIT",
    "runtime.session_model.IN_MEMORY_BYTES",
    "runtime.session_model.LARGE_BYTES",
    "runtime.onnxruntime_runner.LARGE_BYTES",
    "artifacts.weight_file.DERIVED_BYTES",
    "graph.set_aside.DERIVED_BYTES",
)


@dataclass(frozen=True)
class Project:
    """A project whose stages have run."""

    loaded: LoadedConfig
    run: RunDirectory


def run_all(folder: Path, patch: pytest.MonkeyPatch) -> Project:
    """Run all stages in a new folder, without atc."""
    folder.mkdir()
    patch.setenv("PATH", str(folder))
    _write_project(folder)
    project = Project(load_config(folder / "quantflow.toml", []), RunDirectory(folder / "run"))
    for stage in STAGES:
        run_stage(Context(project.loaded, project.run), stage)
    return project


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Weights in the models' own files."""
    with pytest.MonkeyPatch.context() as patch:
        return run_all(tmp_path_factory.mktemp("inside") / "project", patch)


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Every weight is large."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "scratch").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        for name in LIMITS:
            patch.setattr(f"quantflow.{name}", 0)
        patch.setenv("TMPDIR", str(folder / "scratch"))
        patch.setattr("tempfile.tempdir", None)
        yield run_all(folder / "project", patch)


def _write_project(folder: Path) -> None:
    """Two MatMuls and a Gemm that share a transposed weight with a Gather, and a convolution."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["e"], name="embed"),
        helper.make_node("Add", ["x", "e"], ["s"], name="sum"),
        helper.make_node("MatMul", ["s", "w0"], ["m0"], name="first"),
        helper.make_node("Relu", ["m0"], ["r0"], name="relu"),
        helper.make_node("Gemm", ["r0", "w1", "c"], ["g"], name="second", transB=1),
        helper.make_node("Tanh", ["g"], ["t"], name="tanh"),
        helper.make_node("Transpose", ["table"], ["turned"], name="turn", perm=[1, 0]),
        helper.make_node("MatMul", ["t", "turned"], ["y"], name="head"),
    ]
    shapes = {"table": (40, 32), "w0": (32, 48), "w1": (32, 48), "c": (32,)}
    weights = [
        numpy_helper.from_array((rng.normal(size=shape) / 6).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 32]),
            helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch"]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 40])],
        weights,
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(
        helper.make_model(graph, opset_imports=opset, ir_version=9),
        folder / "model.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=1024,
    )
    x = rng.normal(size=(60, 32)).astype(np.float32)
    np.savez(folder / "candidates.npz", x=x, ids=np.arange(60) % 40)
    (folder / "quantflow.toml").write_text(CONFIG)


def test_all_stages_come_to_the_same_as_with_weights_inside(
    inside: Project, outside: Project
) -> None:
    one, other = outside.run, inside.run
    assert external_files(other.folder("00_model") / "model.onnx") == []
    files = [path.relative_to(one.root) for path in one.root.rglob("*.onnx")]
    assert len(files) == 9
    for name in files:
        path = one.root / name
        assert external_files(path) == [path.with_name(f"{path.name}.data")]
        _same_weights(path, other.root / name)
    found, expected = (
        RangesRecord.read(run.folder("20_ranges") / "ranges.json").ranges for run in (one, other)
    )
    for a, b in zip(found, expected, strict=True):
        assert a.tensor == b.tensor
        assert (a.low, a.high) == pytest.approx((b.low, b.high), rel=1e-5)
    parity = ParityReport.read(one.folder("40_onnx") / "parity.json")
    assert parity.verdict == "pass" and all(layer.int32_exact for layer in parity.layers)
    close, known = (
        Comparison.read(run.folder("45_compare") / "comparison.json").fidelity
        for run in (one, other)
    )
    for name in known:
        assert close[name].cosine_mean == pytest.approx(known[name].cosine_mean, abs=1e-4)


def _same_weights(path: Path, other: Path) -> None:
    found, expected = (load_model(x).graph.initializers for x in (path, other))
    assert sorted(found) == sorted(expected)
    for name, value in expected.items():
        a, b = found[name].const_value, value.const_value
        assert a is not None and b is not None and a.dtype == b.dtype
        assert np.allclose(a.numpy(), b.numpy(), rtol=1e-5), name


def test_no_file_of_short_life_is_left(outside: Project) -> None:
    assert list((outside.run.root.parents[1] / "scratch").iterdir()) == []


def test_the_hand_over_takes_the_data_along_and_lint_reads_it(outside: Project) -> None:
    folder = outside.run.folder
    export = ExportRecord.read(folder("40_onnx") / "export.json")
    for bucket in export.buckets:
        deploy = folder("50_om") / bucket.deploy
        assert external_files(deploy) == [deploy.with_name(f"{deploy.name}.data")]
        assert [x for x in lint(load_model(deploy), "2026") if x.level == "error"] == []
        for path in (deploy, *external_files(deploy)):
            assert path.read_bytes() == (folder("40_onnx") / path.name).read_bytes()
    assert OmRecord.read(folder("50_om") / "om.json").status == "not-converted"


@pytest.mark.parametrize("name", ["00_model", "40_onnx"])
def test_files_made_again_are_the_same_bytes(outside: Project, name: str) -> None:
    folder = outside.run.folder(name)
    before = {path.name: file_digest(path) for path in folder.iterdir()}
    assert any(name.endswith(".data") for name in before)
    stage = next(stage for stage in STAGES if stage.folder == name)
    assert run_stage(Context(outside.loaded, outside.run, force=True), stage).ran
    assert {path.name: file_digest(path) for path in folder.iterdir()} == before


def test_data_that_was_changed_is_noticed(outside: Project) -> None:
    data = outside.run.folder("00_model") / "model.onnx.data"
    content = bytearray(data.read_bytes())
    content[100] ^= 1
    data.write_bytes(content)
    ranges = next(stage for stage in STAGES if stage.folder == "20_ranges")
    with pytest.raises(QuantflowError, match="QF405"):
        run_stage(Context(outside.loaded, outside.run), ranges)
