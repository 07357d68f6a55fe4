"""A tensor divided by a scale, and the model still computes what it did."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.graph.edit import nodes_by_name
from quantflow.graph.kinds.table import channel_axis
from quantflow.recovery.rescale import constant_of
from tests.graph.models import assert_close, rand

from .builders import Graph, along_channels, graph
from .zoo import FOLDED, UNCERTAIN, UNFOLDED, Case

FACTORS = st.floats(2.0**-6, 2.0**6, width=32)


@cache
def built(name: str) -> tuple[Case, Graph]:
    case = (FOLDED | UNFOLDED | UNCERTAIN)[name]
    return case, graph(case.text, case.weights)


@cache
def before(name: str) -> dict[str, np.ndarray]:
    case, made = built(name)
    return made.outputs(case.tensor)


def check_scaled(name: str, of_class: list[float]) -> None:
    """Divide by a scale that has one value a class; the tensor is divided, outputs are not."""
    case, made = built(name)
    fold = made.fold(case.tensor)
    assert fold is not None
    scale = np.float32(of_class)[fold.classes]
    constants = {str(x.name): x.const_value.numpy().copy()
                 for x in made.model.graph.initializers.values()}  # fmt: skip
    found = made.scaled(case.tensor, scale, fold).outputs(case.tensor)
    expected = dict(before(name))
    axis = channel_axis(made.layers(case.tensor)[0])
    divided = expected[case.tensor] / along_channels(scale, expected[case.tensor], axis)
    undone = found[case.tensor] * along_channels(scale, divided, axis)
    assert_close({"": undone}, {"": expected.pop(case.tensor)}, 1e-5)
    assert_close({"": found.pop(case.tensor)}, {"": divided}, 1e-5)
    assert_close(found, expected, 1e-5)
    # The graph that is copied shares its constants with the copy, and keeps them.
    for value in made.model.graph.initializers.values():
        assert value.const_value is not None
        assert np.array_equal(value.const_value.numpy(), constants[str(value.name)])


@pytest.mark.parametrize("name", FOLDED)
@settings(max_examples=12)
@given(st.data())
def test_outputs_stay_and_the_tensor_is_divided(name: str, data: st.DataObject) -> None:
    count = max(FOLDED[name].classes) + 1
    check_scaled(name, data.draw(st.lists(FACTORS, min_size=count, max_size=count)))


@pytest.mark.parametrize("name", FOLDED)
def test_channels_that_come_from_one_are_one_class(name: str) -> None:
    case, made = built(name)
    fold = made.fold(case.tensor)
    assert fold is not None
    assert fold.classes.tolist() == list(case.classes)
    assert {edit.node for edit in fold.edits} == {f"n_{x}" for x in case.nodes.split()}


@pytest.mark.parametrize("name", UNFOLDED)
def test_where_no_constant_can_take_the_scale_there_is_no_fold(name: str) -> None:
    case, made = built(name)
    assert made.fold(case.tensor) is None


@pytest.mark.parametrize("name", UNCERTAIN)
def test_a_fold_that_is_found_is_right(name: str) -> None:
    case, made = built(name)
    fold = made.fold(case.tensor)
    if fold is not None:
        count = int(fold.classes.max()) + 1
        assert set(fold.classes.tolist()) == set(range(count))
        check_scaled(name, (2.0 ** np.random.default_rng(0).uniform(-5, 5, count)).tolist())


def test_a_reader_that_is_not_named_forbids_it() -> None:
    _, made = built("normalization of three layers")
    everyone = made.layers("n")
    for layer in everyone:
        others = made.record.model_copy(
            update={"layers": tuple(x for x in made.record.layers if x != layer)}
        )
        assert Graph(made.model, others, made.feeds).fold("n") is None


@pytest.mark.parametrize("name", ["a half that others read", "one gain for two normalizations"])
def test_who_shares_a_constant_keeps_it(name: str) -> None:
    case, made = built(name)
    fold = made.fold(case.tensor)
    assert fold is not None
    count = int(fold.classes.max()) + 1
    after = made.scaled(case.tensor, np.full(count, 4, np.float32)[fold.classes], fold).model
    other, index = ("n_y", 1) if "half" in name else ("n_k", 1)
    kept = constant_of(nodes_by_name(after)[other], index)
    assert np.array_equal(kept, constant_of(nodes_by_name(made.model)[other], index))


@settings(max_examples=15)
@given(st.lists(FACTORS, min_size=4, max_size=4))
def test_without_a_fold_a_mul_divides_for_the_layers_alone(scale: list[float]) -> None:
    made = graph(
        "(float[2,3,4] x) => (float[2,3,4] y) "
        "{ a = Tanh(x) b = MatMul(a, w1) c = MatMul(a, w2) d = Add(b, c) y = Add(a, d) }",
        {"w1": rand(4, 4), "w2": rand(4, 4, seed=1)},
    )
    assert made.fold("a") is None
    expected = made.outputs("a")
    after = made.scaled("a", np.float32(scale), None)
    assert_close(after.outputs("a"), expected, 1e-5)
    (added,) = set(nodes_by_name(after.model)) - set(nodes_by_name(made.model))
    node = nodes_by_name(after.model)[added]
    assert node.op_type == "Mul"
    assert {str(user.node.name) for user in node.outputs[0].uses()} == {"n_b", "n_c"}
    found = after.outputs(str(node.outputs[0].name))[str(node.outputs[0].name)]
    assert_close({"": found}, {"": expected["a"] / np.float32(scale)}, 1e-5)
    # The graph stays in order: onnxruntime would refuse one that is not.
    order = [str(x.name) for x in after.model.graph]
    assert order.index("n_a") < order.index(added) < order.index("n_b")
