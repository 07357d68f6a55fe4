"""Stage 0 refuses what it cannot stand for: another model, a bucket, an output, a weight."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from quantflow.errors import Problem, QuantflowError
from quantflow.graph import canonical
from tests.graph.models import build, rand
from tests.sensitivity.projects import read_model, run_until, write_project

W = rand(8, 4)
PLAIN = "(float[batch,8] x) => (float[batch,4] y) { m = MatMul(x, w) y = Softmax(m) }"


def prepare(
    directory: Path, model: onnx.ModelProto, dims: dict[str, int], more: str = ""
) -> tuple[str, ...]:
    """Run stage 0; returns its notes."""
    config = write_project(directory, model, {"x": np.zeros((1, 1))}, dims, more)
    run_until("00_model", config)
    return read_model(config).notes


def refused(directory: Path, model: onnx.ModelProto, dims: dict[str, int]) -> tuple[Problem, ...]:
    with pytest.raises(QuantflowError) as caught:
        prepare(directory, model, dims)
    assert all(problem.where and problem.fix for problem in caught.value.problems)
    return caught.value.problems


# --- another model -----------------------------------------------------------------------------


def spoil(factor: float) -> Callable[[ir.Model], int]:
    """A pass that multiplies the weights, as no pass should."""

    def spoilt(model: ir.Model) -> int:
        for value in model.graph.initializers.values():
            assert value.const_value is not None
            value.const_value = ir.tensor(value.const_value.numpy() * np.float32(factor))
        return 1

    return spoilt


@pytest.mark.parametrize("factor", [0.9, 1 + 1e-5])
def test_a_canonical_model_that_computes_something_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float
) -> None:
    monkeypatch.setattr(canonical, "order_addition", spoil(factor))
    if factor > 1:  # rounding
        assert prepare(tmp_path, build(PLAIN, {"w": W}), {"batch": 2}) == ()
        return
    (problem,) = refused(tmp_path, build(PLAIN, {"w": W}), {"batch": 2})
    assert problem.code == "QF218" and problem.where == "model.onnx" and "'y'" in problem.what


MODULE = """
import torch
def make():
    # Weights are drawn anew by every call.
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
"""

TORCH_CONFIG = """
[model]
factory = "net:make"
outputs = ["y"]
[model.inputs.x]
shape = ["batch", 8]
[set.candidates]
kind = "npz"
path = "candidates.npz"
"""


def test_a_torch_module_is_what_its_canonical_model_is_compared_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net.py").write_text(MODULE)
    np.savez(tmp_path / "candidates.npz", x=rand(4, 8))
    config = tmp_path / "quantflow.toml"
    config.write_text(TORCH_CONFIG)
    run_until("00_model", config)
    assert read_model(config).notes == ()
    monkeypatch.setattr(canonical, "order_addition", spoil(0.9))
    (tmp_path / "net.py").write_text(MODULE.replace("16", "12"))
    with pytest.raises(QuantflowError, match="QF218") as caught:
        run_until("00_model", config)
    assert caught.value.problems[0].where == "net:make"


def test_fill_values_stay_where_another_one_would_change_the_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canonical, "clamp_attention_mask", spoil(0.9))
    (note,) = prepare(tmp_path, build(PLAIN, {"w": W}), {"batch": 2})
    assert note.startswith("mask fill values beyond fp16 stay")


@pytest.mark.parametrize(("body", "said"), [
    ("l = Log(m)", ()),  # NaN for every negative product
    ("a = Exp(m) n = Neg(a) l = Log(n)", ("no finite number",)),
])  # fmt: skip
def test_outputs_that_are_nan_in_both_models_are_no_difference(
    tmp_path: Path, body: str, said: tuple[str, ...]
) -> None:
    text = f"(float[batch,8] x) => (float[batch,4] l) {{ m = MatMul(x, w) {body} }}"
    notes = prepare(tmp_path, build(text, {"w": W}), {"batch": 2})
    assert len(notes) == len(said)
    assert all(word in note for word, note in zip(said, notes, strict=True))


def test_a_file_that_onnxruntime_cannot_run_is_not_compared_and_said(tmp_path: Path) -> None:
    model = build(
        "(float[batch,2,6,6] x) => (float[batch,3,6,6] y) "
        '{ y = Conv<auto_pad="SAME_UPPER", dilations=[2,2]>(x, w) }',
        {"w": rand(3, 2, 3, 3)},
    )
    (note,) = prepare(tmp_path, model, {"batch": 2})
    assert note.startswith("not compared with the given model") and "Dilation" in note


# --- buckets -----------------------------------------------------------------------------------

BUCKETS = "batch = 4, length = 6}, {batch = 1, length = 5"


@pytest.mark.parametrize(("body", "constants", "node"), [
    ("r = Reshape(x, s) y = MatMul(r, w)", {"s": np.int64([-1, 6, 8])}, "Reshape"),
    ("r = Add(x, p) y = MatMul(r, w)", {"p": rand(1, 6, 8)}, "Add"),
])  # fmt: skip
def test_a_bucket_that_the_graph_cannot_take_is_named_with_the_node(
    tmp_path: Path, body: str, constants: dict[str, np.ndarray], node: str
) -> None:
    text = f"(float[batch,length,8] x) => (float[batch,length,4] y) {{ {body} }}"
    dims = {"batch": 4, "length": 6}
    model = build(text, {"w": W, **constants})
    assert prepare(tmp_path / "one", model, dims) == ()
    config = write_project(tmp_path, model, {"x": np.zeros(1)}, dims)
    config.write_text(config.read_text().replace("batch = 4, length = 6", BUCKETS))
    with pytest.raises(QuantflowError) as caught:
        run_until("00_model", config)
    (problem,) = caught.value.problems
    assert problem.code == "QF216" and problem.where.startswith("target.buckets[1]")
    assert node in problem.what + problem.where and problem.fix


def test_a_bucket_that_is_added_later_is_looked_at_by_the_export(tmp_path: Path) -> None:
    text = "(float[batch,length,8] x) => (float[b,l,4] y) { r = Add(x, p) y = MatMul(r, w) }"
    model = build(text, {"w": W, "p": rand(1, 6, 8)})
    more = '[plan]\npolicy = "none"\n'
    samples = {"x": rand(40, 6, 8)}
    config = write_project(tmp_path, model, samples, {"batch": 4, "length": 6}, more)
    run_until("20_ranges", config)
    config.write_text(config.read_text().replace("batch = 4, length = 6", BUCKETS))
    with pytest.raises(QuantflowError, match="QF216"):
        run_until("40_onnx", config)


@pytest.mark.parametrize(("body", "said"), [
    ("n = NonZero(x) f = Cast<to=1>(n) t = Transpose(f) y = MatMul(t, v)", "NonZero"),
    ("m = MatMul(x, w) y = MatMul(m, z)", "MatMul is empty"),
])  # fmt: skip
def test_an_output_whose_size_is_not_fixed_or_zero_is_refused(
    tmp_path: Path, body: str, said: str
) -> None:
    weights = {"w": W, "v": rand(2, 4), "z": rand(4, 0)}
    text = f"(float[batch,8] x) => (float[n,k] y) {{ {body} }}"
    (problem,) = refused(tmp_path, build(text, weights), {"batch": 2})
    assert problem.code == "QF216" and said in problem.what and "n_" in problem.where


# --- outputs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("last", "shape"), [
    ("y = ReduceMean<keepdims=0>(m)", ""),
    ("y = Transpose(m)", "[4,batch]"),
    ("y = Expand(m, two)", "[2,batch,4]"),
    ("y = Expand(m, three)", "[3,batch,4]"),  # as many as there are samples
])  # fmt: skip
@pytest.mark.parametrize("batch", [1, 2, 4])
def test_an_output_without_the_batch_in_front_is_refused(
    tmp_path: Path, last: str, shape: str, batch: int
) -> None:
    text = f"(float[batch,8] x) => (float{shape} y) {{ m = MatMul(x, w) {last} }}"
    sizes = {"two": np.int64([2, 1, 1]), "three": np.int64([3, 1, 1])}
    problems = refused(tmp_path, build(text, {"w": W, **sizes}), {"batch": batch})
    assert [problem.code for problem in problems] == ["QF212"] and "'y'" in problems[0].what


# --- masks and weights -------------------------------------------------------------------------

MASKED = """(float[batch,length,8] x, float[batch,length] attention_mask) =>
    (float[batch,length,4] y) { m = MatMul(x, w) u = Unsqueeze(attention_mask, last)
    a = Add(m, u) y = Softmax<axis=1>(a) }"""


@pytest.mark.parametrize("told", ["", "true", "false"])
def test_floats_are_the_mask_only_where_the_configuration_says_so(
    tmp_path: Path, told: str
) -> None:
    model = build(MASKED, {"w": W, "last": np.int64([2])})
    dims = {"batch": 2, "length": 5}
    if not told:
        (problem,) = refused(tmp_path, model, dims)
        assert problem.code == "QF215" and problem.where == "model.inputs.attention_mask"
        return
    more = f"[model.inputs.attention_mask]\nmask = {told}\n"
    config = write_project(tmp_path, model, {"x": np.zeros(1)}, dims, more)
    run_until("00_model", config)
    mask = read_model(config).mask
    assert (mask is not None) == (told == "true")


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["w", "c"])
def test_a_layer_whose_weights_are_not_finite_is_named(
    tmp_path: Path, name: str, value: float
) -> None:
    weights = {"w": rand(8, 4), "c": rand(4)}
    weights[name].flat[:3] = value
    text = "(float[batch,8] x) => (float[batch,4] y) { m = MatMul(x, w) y = Add(m, c) }"
    (problem,) = refused(tmp_path, build(text, weights), {"batch": 2})
    assert (problem.code, problem.where) == ("QF217", "n_m")
    assert "3 values" in problem.what
