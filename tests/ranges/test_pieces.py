"""A model runs in pieces as it does in one, and little of it is at hand at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from quantflow.graph.edit import all_values
from quantflow.ranges.pieces import Piece, pieces_of
from quantflow.ranges.run_pieces import run_pieces
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from tests.graph.models import build, rand, run

ROWS, WIDTH = 3, 8
BYTES = 4 * ROWS * WIDTH
"""Of a value of every model below."""

CHAIN = (
    f"(float[{ROWS},{WIDTH}] x) => (float[{ROWS},{WIDTH}] y) "
    "{ a = MatMul(x, w) b = Tanh(a) c = Add(a, b) d = MatMul(c, w) e = Sigmoid(d) f = Mul(d, e) "
    "y = MatMul(f, w) }"
)
"""Between ``c`` and ``d``, and between ``f`` and ``y``, a single value is on its way."""


def model_of(text: str) -> ir.Model:
    proto = build(text, {"w": rand(WIDTH, WIDTH)})
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto))


def written(model: ir.Model) -> list[str]:
    """Every float32 value that a node writes."""
    tensor = ir.TensorType(ir.DataType.FLOAT)
    return [str(x.name) for x in all_values(model.graph) if x.producer() and x.type == tensor]


def cut(model: ir.Model, limit: int) -> list[Piece]:
    names = written(model)
    return pieces_of(model, names, dict.fromkeys(names, BYTES), limit)


def run_whole(model: ir.Model, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every value, of a single session."""
    proto = ir.to_proto(model)
    given = {value.name for value in proto.graph.output}
    for name in written(model):
        if name not in given:
            proto.graph.output.append(onnx.ValueInfoProto(name=name))
    return run(onnx.shape_inference.infer_shapes(proto), feeds)


def run_cut(
    model: ir.Model, pieces: list[Piece], feeds: Sequence[dict[str, np.ndarray]]
) -> list[dict[str, np.ndarray]]:
    found: list[dict[str, np.ndarray]] = [{} for _ in feeds]
    for place, values in run_pieces(
        model, pieces, partial(OnnxRuntimeRunner, optimize=False), feeds
    ):
        found[place] |= values
    return found


@pytest.mark.parametrize("limit", [1, 2 * BYTES, 3 * BYTES, 5 * BYTES, 100 * BYTES])
def test_pieces_compute_what_the_whole_does(limit: int) -> None:
    model = model_of(CHAIN)
    feeds = [{"x": rand(ROWS, WIDTH, seed=seed)} for seed in range(3)]
    pieces = cut(model, limit)
    assert [name for piece in pieces for name in piece.asked] == list("abcdefy")
    for each, found in zip(feeds, run_cut(model, pieces, feeds), strict=True):
        for name, expected in run_whole(model, each).items():
            np.testing.assert_array_equal(found[name], expected)


@pytest.mark.parametrize("values", [1, 2, 3, 5, 7])
def test_a_piece_computes_no_more_than_the_limit(values: int) -> None:
    pieces = cut(model_of(CHAIN), values * BYTES)
    assert max(len(piece.asked) for piece in pieces) <= values
    assert len(pieces) >= -(-7 // values)


def test_a_piece_ends_where_least_is_on_its_way() -> None:
    # Up to three values fit beside each other, more than one and a half have to.
    pieces = cut(model_of(CHAIN), 3 * BYTES)
    assert [piece.asked for piece in pieces] == [("a", "b", "c"), ("d", "e", "f"), ("y",)]
    assert [piece.reads for piece in pieces] == [("x",), ("c",), ("f",)]
    assert [piece.hands_on for piece in pieces] == [("c",), ("f",), ()]


def test_what_follows_from_constants_is_left_to_every_piece_that_reads_it() -> None:
    model = model_of(
        f"(float[{ROWS},{WIDTH}] x) => (float[{ROWS},{WIDTH}] y) "
        "{ t = Transpose(w) a = MatMul(x, t) b = MatMul(a, t) y = MatMul(b, t) }"
    )
    pieces = cut(model, BYTES)
    assert [piece.reads for piece in pieces if piece.asked != ("t",)] == [("x",), ("a",), ("b",)]
    feeds = {"x": rand(ROWS, WIDTH, seed=1)}
    (found,) = run_cut(model, pieces, [feeds])
    np.testing.assert_array_equal(found["y"], run_whole(model, feeds)["y"])


def test_what_is_no_tensor_is_not_handed_on() -> None:
    model = model_of(
        f"(float[{ROWS},{WIDTH}] x) => (float[{2 * ROWS},{WIDTH}] y) "
        "{ a = Tanh(x) s = SequenceConstruct(a, x) b = Neg(a) c = Neg(b) "
        "d = ConcatFromSequence <axis = 0> (s) y = Neg(d) }"
    )
    pieces = cut(model, 1)
    assert [piece.asked for piece in pieces] == [("a",), ("b", "c", "d"), ("y",)]
    feeds = {"x": rand(ROWS, WIDTH, seed=1)}
    (found,) = run_cut(model, pieces, [feeds])
    np.testing.assert_array_equal(found["y"], run_whole(model, feeds)["y"])


def test_what_the_body_of_an_if_reads_is_handed_on() -> None:
    model = model_of(
        f"(float[{ROWS},{WIDTH}] x, bool[1] flag) => (float[{ROWS},{WIDTH}] y) "
        "{ a = Tanh(x) b = Neg(x) c = Neg(b) "
        f"d = If (flag) <then_branch = g1 () => (float[{ROWS},{WIDTH}] p) {{ p = Add(a, c) }}, "
        f"else_branch = g2 () => (float[{ROWS},{WIDTH}] q) {{ q = Sub(a, b) }}> y = Neg(d) }}"
    )
    pieces = cut(model, BYTES)
    (branching,) = (piece for piece in pieces if "d" in piece.asked)
    assert set(branching.reads) == {"flag", "a", "b", "c"}
    x = rand(ROWS, WIDTH, seed=1)
    feeds = [{"x": x, "flag": np.array([flag])} for flag in (True, False)]
    for each, found in zip(feeds, run_cut(model, pieces, feeds), strict=True):
        np.testing.assert_array_equal(found["y"], run_whole(model, each)["y"])


def test_values_go_once_the_next_ones_are_asked_for_and_no_two_runners_are_there() -> None:
    model, alive = model_of(CHAIN), list[str]()

    class Counted(OnnxRuntimeRunner):
        def __init__(self, part: ir.Model) -> None:
            assert not alive
            super().__init__(part)
            alive.append("one")

        def __del__(self) -> None:
            alive.pop()

    feeds = [{"x": rand(ROWS, WIDTH, seed=seed)} for seed in range(2)]
    seen = list[dict[str, np.ndarray]]()
    for _, values in run_pieces(model, cut(model, 2 * BYTES), Counted, feeds):
        assert not any(seen)
        seen.append(values)
    assert not alive
