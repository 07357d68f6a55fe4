"""One bucket in every precision: which there are, and that each is what its name says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantflow.artifacts.export_record import BucketFiles, ExportRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.config import RuntimeConfig, TargetConfig
from quantflow.evaluation.precisions import OnDemand, Precisions, open_precisions
from quantflow.export.lowering import lower
from quantflow.graph.model_io import load_model
from tests.export.builders import run
from tests.graph.models import build, rand
from tests.sensitivity.projects import run_until, write_project


def export(directory: Path, gain: float) -> tuple[Path, BucketFiles, PrecisionPlan]:
    """A model that squares `gain` times what its first layer gives."""
    model = build(
        "(float[batch,8] x) => (float[batch,4] y) { a = MatMul(x, w) b = Mul(a, gain) "
        "c = Mul(b, b) d = ReduceMean(c, last) e = Sqrt(d) f = Div(b, e) y = MatMul(f, w2) }",
        {
            "w": rand(8, 8), "w2": rand(8, 4, seed=1), "gain": np.float32(gain),
            "last": np.int64([1]),
        },
    )  # fmt: skip
    config = write_project(directory, model, {"x": rand(40, 8)}, {"batch": 2})
    run_until("40_onnx", config, "plan.policy=none")
    folder = directory / "run" / "40_onnx"
    bucket = ExportRecord.read(folder / "export.json").buckets[0]
    return folder, bucket, PrecisionPlan.read(folder / "plan.json")


@pytest.fixture(scope="module")
def tame(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, BucketFiles, PrecisionPlan]:
    return export(tmp_path_factory.mktemp("tame"), 1.0)


@pytest.fixture(scope="module")
def wild(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, BucketFiles, PrecisionPlan]:
    return export(tmp_path_factory.mktemp("wild"), 1000.0)


def opened(exported: tuple[Path, BucketFiles, PrecisionPlan]) -> Precisions:
    return open_precisions(*exported, TargetConfig(), RuntimeConfig(threads=1))


def test_a_model_is_opened_when_it_runs_and_again_after_it_was_given_up() -> None:
    opened = list[int]()

    class Model:
        outputs = ("y",)

        def run(self, feeds: Any) -> dict[str, Any]:
            return {"y": feeds["x"] + 1}

    def make() -> Model:
        opened.append(len(opened))
        return Model()

    model = OnDemand(make)
    assert opened == []
    assert [model.run({"x": 1})["y"], model.run({"x": 2})["y"]] == [2, 3]
    assert opened == [0] and model.outputs == ("y",)
    model.close()
    model.close()
    assert model.run({"x": 3})["y"] == 4 and opened == [0, 1]


FEEDS = {"x": rand(2, 8, seed=5)}


def test_all_precisions_give_the_same_outputs_and_plain_fp16_is_left_out_without_islands(
    tame: tuple[Path, BucketFiles, PrecisionPlan],
) -> None:
    models = opened(tame)
    assert list(models.others) == ["fp16", "int8", "qdq", "qdq_unfused"]
    exact = models.fp32.run(FEEDS)["y"]
    for name, runner in models.others.items():
        found = runner.run(FEEDS)["y"]
        assert found.shape == exact.shape and not np.array_equal(found, exact), name
        assert np.abs(found - exact).max() < (0.01 if name == "fp16" else 0.2), name


def test_an_overflow_shows_in_plain_fp16_and_not_with_islands(
    wild: tuple[Path, BucketFiles, PrecisionPlan],
) -> None:
    models = opened(wild)
    assert wild[2].islands
    exact = models.fp32.run(FEEDS)["y"]
    plain = models.others["fp16_plain"].run(FEEDS)["y"]
    # The mean of squares overflows to infinity, and what is divided by it vanishes.
    assert not np.isfinite(plain).all() or np.abs(plain - exact).max() > 0.1
    assert np.abs(models.others["fp16"].run(FEEDS)["y"] - exact).max() < 0.01
    assert np.isfinite(models.others["int8"].run(FEEDS)["y"]).all()


def test_int8_is_the_deploy_file_itself(tame: tuple[Path, BucketFiles, PrecisionPlan]) -> None:
    folder, bucket, _ = tame
    deploy = load_model(folder / bucket.deploy)
    lowered = lower(deploy, fp19=True, emulate_fp16=True, islands=frozenset())
    expected = run(lowered, FEEDS)["y"]
    np.testing.assert_array_equal(opened(tame).others["int8"].run(FEEDS)["y"], expected)
