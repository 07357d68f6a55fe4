"""Several buckets from one plan: files of their own, the same factors, each shown to be right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from quantflow.__main__ import main
from quantflow.artifacts.export_record import ExportRecord, ParityReport
from quantflow.config import TargetConfig
from quantflow.errors import QuantflowError
from quantflow.graph.bucket_rules import bucket_problems, check_buckets
from tests.graph.models import build, rand

CONFIG = """
[model]
onnx = "model.onnx"
[set]
samples = 12
heldout_samples = 10
evaluation_samples = 6
[set.candidates]
kind = "npz"
path = "candidates.npz"
[plan]
policy = "none"
[target]
buckets = [{ batch = 2, length = 6 }, { batch = 1, length = 3 }, { batch = 5, length = 9 }]
[run]
directory = "run"
"""

STAGES = ("prepare", "build-set", "calibrate", "export-onnx")


def write_project(folder: Path) -> Path:
    weights = {"w": rand(8, 8), "v": rand(8, 4, seed=1)}
    text = (
        "(float[batch,length,8] x) => (float[batch,length,4] y) "
        "{ a = MatMul(x, w) r = Relu(a) y = MatMul(r, v) }"
    )
    onnx.save(build(text, weights), folder / "model.onnx")
    np.savez(folder / "candidates.npz", x=rand(40, 6, 8, seed=2))
    config = folder / "quantflow.toml"
    config.write_text(CONFIG)
    return config


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder 40_onnx of a model with a free batch and length, in three buckets."""
    folder = tmp_path_factory.mktemp("buckets")
    config = write_project(folder)
    for stage in STAGES:
        assert main([stage, "-q", "-c", str(config)]) == 0
    return folder / "run" / "40_onnx"


def test_every_bucket_has_a_deploy_model_and_twins_of_its_shape(exported: Path) -> None:
    record = ExportRecord.read(exported / "export.json")
    names = [bucket.name for bucket in record.buckets]
    assert names == ["batch2_length6", "batch1_length3", "batch5_length9"]
    for bucket, (batch, length) in zip(record.buckets, [(2, 6), (1, 3), (5, 9)], strict=True):
        for file in (bucket.deploy, bucket.float_twin, bucket.qdq):
            model = onnx.load(exported / file)
            dims = model.graph.input[0].type.tensor_type.shape.dim
            assert [dim.dim_value for dim in dims] == [batch, length, 8]


def test_buckets_share_all_factors_and_weights(exported: Path) -> None:
    record = ExportRecord.read(exported / "export.json")
    contents = list[dict[str, bytes]]()
    scales = list[list[float]]()
    for bucket in record.buckets:
        graph = onnx.load(exported / bucket.deploy).graph
        contents.append({x.name: numpy_helper.to_array(x).tobytes() for x in graph.initializer})
        quants = [node for node in graph.node if node.op_type == "AscendQuant"]
        attributes = [{x.name: helper.get_attribute_value(x) for x in n.attribute} for n in quants]
        scales.append([x["scale"] for x in attributes])
    assert contents[0] == contents[1] == contents[2]
    assert scales[0] == scales[1] == scales[2] and len(scales[0]) == 2


def test_parity_is_shown_for_every_bucket_whatever_fits_it(exported: Path) -> None:
    # Samples of length 6 are cut to 3 and padded to 9: parity asks for any input.
    parity = ParityReport.read(exported / "parity.json")
    assert [x.bucket for x in parity.buckets] == [
        "batch2_length6",
        "batch1_length3",
        "batch5_length9",
    ]
    assert all(x.verdict == "pass" and x.cosine_min >= 0.99999 for x in parity.buckets)
    assert {x.samples for x in parity.buckets} == {8}
    assert parity.verdict == "pass" and len(parity.layers) == 2


def test_all_buckets_are_shown(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for what in ("export", "parity"):
        assert main(["show", what, "--run", str(exported.parent)]) == 0
        out = capsys.readouterr().out
        assert all(name in out for name in ("batch2_length6", "batch1_length3", "batch5_length9"))


def test_the_linter_finds_every_deploy_model_clean(exported: Path) -> None:
    for bucket in ExportRecord.read(exported / "export.json").buckets:
        assert main(["lint", str(exported / bucket.deploy)]) == 0


@pytest.mark.parametrize(
    ("buckets", "said"),
    [
        ("[{ batch = 1, length = 2, width = 3 }]", "no free dimension 'width'"),
        ("[{ batch = 1, length = 2 }, { batch = 1, lenght = 2 }]", "'length'"),
        ("[{ batch = 1 }]", "does not fix dimension 'length'"),
    ],
)
def test_a_bucket_with_other_dimensions_than_the_model_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], buckets: str, said: str
) -> None:
    config = write_project(tmp_path)
    command = ["prepare", "-q", "-c", str(config), "--set", f"target.buckets={buckets}"]
    assert main(command) == 2
    assert said in capsys.readouterr().err


def test_a_bucket_added_after_stage_0_is_checked_too(
    exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = exported.parent.parent / "quantflow.toml"
    buckets = "[{ batch = 2, length = 6 }, { batch = 2, length = 6, depth = 1 }]"
    command = ["export-onnx", "-q", "-c", str(config), "--set", f"target.buckets={buckets}"]
    assert main(command) == 2
    assert "'depth'" in capsys.readouterr().err


def target(*buckets: dict[str, int]) -> TargetConfig:
    return TargetConfig.model_validate({"buckets": list(buckets)})


def test_the_default_bucket_fits_a_model_without_free_dimensions() -> None:
    check_buckets([], TargetConfig())
    check_buckets([], target({}))
    with pytest.raises(QuantflowError) as caught:
        check_buckets([], target({"batch": 1}))
    assert "no dimension is free" in caught.value.problems[0].fix


def test_buckets_whose_files_would_have_one_name_are_refused() -> None:
    # "a b" and "a-b" are the same in a file's name.
    clash = target({"a b": 1, "a-b": 2}, {"a-b": 1, "a b": 2})
    (problem,) = bucket_problems(["a b", "a-b"], clash)
    assert problem.code == "QF206" and "would be called" in problem.what


def test_a_name_that_no_file_can_have_is_refused() -> None:
    name = "n" * 300
    (problem,) = bucket_problems([name], target({name: 1}))
    assert problem.code == "QF206" and "301 characters" in problem.what
