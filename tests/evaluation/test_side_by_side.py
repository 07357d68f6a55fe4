"""Two sides compared: figures by numpy over what both models give, padding left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from quantflow.artifacts.sample_set import SampleSet
from quantflow.artifacts.side_by_side import Point, SideBySide
from quantflow.errors import QuantflowError
from quantflow.export.lowering import lower
from quantflow.graph.edit import with_outputs
from quantflow.graph.model_io import load_model, save_model
from tests.evaluation.exported_encoder import (
    bucket_of,
    compare,
    deploy_of,
    export_encoder,
    float_of,
    node_called,
)
from tests.graph.blocks import WIDTH
from tests.graph.masked_blocks import MASK_NAME
from tests.graph.models import run
from tests.sensitivity.projects import LENGTH

Arrays = Mapping[str, np.ndarray]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_encoder(tmp_path_factory.mktemp("encoder"), blocks=1)


@pytest.fixture(scope="module")
def int8(config: Path) -> SideBySide:
    return compare(config, "fp32", "int8")


def point(found: SideBySide, name: str, kind: str = "layer") -> Point:
    return next(x for x in found.points if (x.name, x.kind) == (name, kind))


def evaluation(config: Path) -> SampleSet:
    return SampleSet(config.parent / "run" / "10_set" / "evaluation")


def values(model: ir.Model, tensor: str, samples: Iterable[Arrays]) -> list[np.ndarray]:
    """A tensor of every sample, real positions only, by running samples one by one, twice each."""
    found = list[np.ndarray]()
    part = with_outputs(model, [tensor])
    for sample in samples:
        real = sample[MASK_NAME].astype(bool)
        gap = LENGTH - len(real)
        x = np.pad(sample["x"], ((0, gap), (0, 0)))
        mask = np.pad(sample[MASK_NAME], (0, gap))
        out = run(part, {"x": np.stack([x, x]), MASK_NAME: np.stack([mask, mask])})[tensor][0]
        found.append(out[: len(real)][real].astype(np.float64))
    return found


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.mark.parametrize(("name", "kind", "tensor"), [
    ("n_A0o", "layer", "A0o"), ("N0", "block", "N0"), ("y", "output", "y"),
])  # fmt: skip
def test_figures_are_those_of_numpy(
    config: Path, int8: SideBySide, name: str, kind: str, tensor: str
) -> None:
    lowered = lower(deploy_of(config), fp19=True, emulate_fp16=True, islands=frozenset())
    samples = list(evaluation(config))
    exact, found = (values(model, tensor, samples) for model in (float_of(config), lowered))
    a, b = np.concatenate(exact), np.concatenate(found)
    row = point(int8, name, kind)
    assert row.samples == len(samples) == 10
    assert row.cosine == pytest.approx(cosine(a, b), abs=2e-6)
    each = [cosine(x, y) for x, y in zip(exact, found, strict=True)]
    assert row.cosine_mean == pytest.approx(np.mean(each), abs=2e-6)
    assert row.cosine_min == pytest.approx(min(each), abs=2e-6)
    assert row.worst_samples[0] == evaluation(config).ids[int(np.argmin(each))]
    assert row.max_abs_error == pytest.approx(np.abs(a - b).max(), rel=0.01)
    assert row.mean_abs_error == pytest.approx(np.abs(a - b).mean(), rel=0.01)
    error = np.linalg.norm(a - b) / np.linalg.norm(a)
    assert row.relative_error == pytest.approx(error, rel=0.01)
    assert row.reference_absmax == pytest.approx(np.abs(a).max(), rel=1e-5)
    assert (row.nonfinite_reference, row.nonfinite_other, row.nonfinite_apart) == (0, 0, 0)


@pytest.mark.parametrize("side", ["fp32", "fp16", "fp16_plain", "int8", "qdq"])
def test_a_side_and_itself_are_equal(config: Path, side: str) -> None:
    found = compare(config, side, side, limit=3)
    assert found.verdict == "pass" and found.samples == 3 and found.first_beyond is None
    assert {(x.cosine, x.cosine_min, x.max_abs_error, x.beyond) for x in found.points} == {
        (1.0, 1.0, 0.0, "")
    }
    assert {(x.jitter_max_abs, x.jitter_cosine) for x in found.points} == {(0.0, 0.0)}


def test_layers_and_outputs_come_in_graph_order(int8: SideBySide) -> None:
    names = [(x.name, x.kind) for x in int8.points]
    layers = [name for name, kind in names if kind == "layer"]
    assert layers == ["n_A0q", "n_A0k", "n_A0v0", "n_A0o", "n_F0a", "n_F0d", "n_y"]
    assert names[-1] == ("y", "output")
    assert names.index(("N0", "block")) == names.index(("n_A0o", "layer")) + 1


def test_a_deploy_file_is_lowered_and_other_files_run_as_they_are(config: Path) -> None:
    folder, bucket = bucket_of(config)
    for file, side, kind in (
        (bucket.deploy, "int8", "int8"),
        (bucket.qdq, "qdq", "qdq"),
        (bucket.float_twin, "fp32", "float"),
    ):
        found = compare(config, side, str(folder / file), limit=2)
        assert found.other.kind == kind and found.verdict == "pass"
        assert all(x.max_abs_error == 0 for x in found.points)


def test_a_file_with_free_dimensions_runs_as_it_is(config: Path) -> None:
    found = compare(config, "fp32", str(config.parent / "model.onnx"), limit=2)
    assert found.other.kind == "float" and found.verdict == "pass"
    assert found.limits.output_cosine == 0.9999 and found.limits.layers_decide


def test_a_model_that_shares_only_the_output_is_compared_there(config: Path) -> None:
    model = float_of(config)
    for node in model.graph:
        for value in node.outputs:
            if not value.is_graph_output():
                value.name = f"other/{value.name}"
    found = compare(config, "fp32", model, limit=2)
    assert {x.tensor for x in found.points} == {"y"} and found.verdict == "pass"
    assert any("n_A0q" in note and "lacks them" in note for note in found.notes)


def test_other_inputs_are_refused(config: Path) -> None:
    model = float_of(config)
    model.graph.inputs[0].name = "z"
    with pytest.raises(QuantflowError, match="QF211"):
        compare(config, "fp32", model)


def test_given_samples_are_used(config: Path, tmp_path: Path) -> None:
    path = tmp_path / "given.npz"
    x = np.random.default_rng(5).normal(size=(3, LENGTH, WIDTH)).astype(np.float32)
    np.savez(path, **{"x": x, MASK_NAME: np.ones((3, LENGTH), np.int64)})
    found = compare(config, "fp32", "fp16", samples=path)
    assert found.samples == 3
    assert set(found.points[0].worst_samples) == {f"given.npz[{i}]" for i in range(3)}


def test_the_budget_is_what_int8_outputs_are_held_to(config: Path, int8: SideBySide) -> None:
    assert int8.limits.output_cosine == 0.99 and "budget.cosine_mean" in int8.limits.source
    worse = compare(config, "fp32", "int8", output_cosine=0.99999, limit=4)
    assert worse.verdict == "fail" and "--output-cosine" in worse.limits.source
    assert any(reason.startswith("output 'y': mean cosine") for reason in worse.reasons)
    assert worse.first_beyond is not None and "adds up" in worse.first_beyond.culprit


def test_layers_of_int8_are_marked_only_unless_they_are_asked_for(config: Path) -> None:
    deploy = deploy_of(config)
    quant = node_called(deploy, "n_A0q/AscendQuant")
    quant.attributes["scale"] = ir.AttrFloat32("scale", quant.attributes["scale"].as_float() / 12)
    marked = compare(config, "fp32", deploy, output_cosine=-1.0, limit=2)
    assert marked.verdict == "pass" and marked.first_beyond is not None
    assert any("does not decide" in note and "n_A0q" in note for note in marked.notes)
    asked = compare(config, "fp32", deploy, output_cosine=-1.0, layer_cosine=0.99, limit=2)
    assert asked.verdict == "fail"


def test_nan_in_both_sides_is_no_agreement(config: Path, tmp_path: Path) -> None:
    model = float_of(config)
    weight = node_called(model, "n_y").inputs[1]
    assert weight is not None and weight.const_value is not None
    array = np.array(weight.const_value.numpy())
    array[0, 0] = np.nan
    weight.const_value = ir.tensor(array, name=weight.name)
    path = tmp_path / "nan.onnx"
    save_model(model, path)
    found = compare(config, str(path), load_model(path), limit=2)
    assert found.verdict == "fail"
    assert found.first_beyond is not None and found.first_beyond.node == "n_y"
    row = point(found, "y", "output")
    assert row.nonfinite_apart == row.nonfinite_other == row.nonfinite_reference > 0
