"""Queries balanced against keys: the same scores, and columns that reach equally far."""

from __future__ import annotations

import numpy as np
import pytest

from quantflow.graph.edit import copy_model, nodes_by_name
from quantflow.recovery.query_key import balance
from quantflow.recovery.rescale import constant_of
from tests.graph.models import assert_close, rand

from .builders import Graph, graph
from .zoo import FUSED, FUSED_WEIGHTS, GROUPED, GROUPED_WEIGHTS, HEADS, HEADS_WEIGHTS, vectors

UNEVEN = np.float32([40, 1, 0.1, 5])
BIASES = {"bq": rand(4, seed=20), "bk": rand(4, seed=21)}
BIASED = HEADS.replace("q1 = Reshape(q, hs)", "qb = Add(q, bq) q1 = Reshape(qb, hs)").replace(
    "k1 = Reshape(k, hs)", "kb = Add(bk, k) k1 = Reshape(kb, hs)"
)


def heads(body: str = HEADS, **more: np.ndarray) -> Graph:
    """Attention whose queries' columns are uneven."""
    weights = {**HEADS_WEIGHTS, "wq": HEADS_WEIGHTS["wq"] * UNEVEN, **more}
    return graph(vectors(body), {k: x for k, x in weights.items() if k in body})


def balanced(made: Graph, *wanted: str) -> tuple[Graph, list[str]]:
    copy = copy_model(made.model)
    found = balance(copy, made.model, set(wanted).__contains__)
    return Graph(copy, made.record, made.feeds), found


def reach(made: Graph, name: str) -> np.ndarray:
    return np.abs(constant_of(nodes_by_name(made.model)[name], 1)).max(axis=0)


@pytest.mark.parametrize("body", [HEADS, BIASED])
@pytest.mark.parametrize("wanted", ["n_q", "n_k"])
def test_scores_stay_and_columns_reach_equally_far(body: str, wanted: str) -> None:
    made = heads(body, **BIASES)
    after, found = balanced(made, wanted)
    assert found == ["n_s"]
    assert_close(after.outputs("s"), made.outputs("s"), 1e-5)
    product = reach(made, "n_q") * reach(made, "n_k")
    for name in ("n_q", "n_k"):
        assert np.allclose(reach(after, name) ** 2, product, rtol=1e-5)
        assert not np.allclose(reach(after, name), reach(made, name), rtol=0.1)


@pytest.mark.parametrize("by", FUSED)
def test_one_layer_for_queries_keys_and_values_is_balanced_and_its_values_stay(by: str) -> None:
    weights = {**FUSED_WEIGHTS, "wf": FUSED_WEIGHTS["wf"] * np.tile(UNEVEN, 3)}
    weights["wf"][:, 4:8] /= 7
    made = graph(vectors(FUSED[by]), {k: x for k, x in weights.items() if k in FUSED[by]})
    after, found = balanced(made, "n_f")
    assert found == ["n_s"]
    assert_close(after.outputs("s"), made.outputs("s"), 1e-5)
    old, new = (reach(x, "n_f").reshape(3, 4) for x in (made, after))
    assert np.allclose(new[:2] ** 2, old[0] * old[1], rtol=1e-5)
    assert np.array_equal(new[2], old[2])


def test_heads_that_share_their_keys_are_scaled_alike() -> None:
    weights = {
        **GROUPED_WEIGHTS,
        "wq": GROUPED_WEIGHTS["wq"] * np.float32([9, 1, 1, 3, 1, 1, 7, 2]),
    }
    made = graph(vectors(GROUPED), weights)
    after, found = balanced(made, "n_k")
    assert found == ["n_s"]
    assert_close(after.outputs("s"), made.outputs("s"), 1e-5)
    # Heads 0 and 1 read the first keys, 2 and 3 the second ones, two channels each.
    q, k = reach(made, "n_q").reshape(2, 2, 2).max(axis=1).ravel(), reach(made, "n_k")
    assert np.allclose(reach(after, "n_k"), np.sqrt(q * k), rtol=1e-5)
    largest = reach(after, "n_q").reshape(2, 2, 2).max(axis=1).ravel()
    assert np.allclose(largest, np.sqrt(q * k), rtol=1e-5)


def test_a_channel_that_is_zero_is_left() -> None:
    weight = HEADS_WEIGHTS["wk"].copy()
    weight[:, 1] = 0
    made = heads(wk=weight)
    after, found = balanced(made, "n_q")
    assert found == ["n_s"]
    assert_close(after.outputs("s"), made.outputs("s"), 1e-5)
    for name in ("n_q", "n_k"):
        assert reach(after, name)[1] == reach(made, name)[1]


@pytest.mark.parametrize("body", [
    HEADS.replace("q1 = Reshape(q, hs)", "qt = Tanh(q) q1 = Reshape(qt, hs)"),
    HEADS.replace("k1 = Reshape(k, hs)", "ks = Add(k, q) k1 = Reshape(ks, hs)"),
    HEADS.replace("s = MatMul(q2, k2)", "s = MatMul(k3, k2)").replace(
        "k2 =", "k3 = Transpose<perm=[0,2,1,3]>(k1) k2 ="
    ),
])  # fmt: skip
def test_what_others_read_or_bend_is_left(body: str) -> None:
    made = heads(body)
    after, found = balanced(made, "n_q", "n_k")
    assert found == []
    for name, value in made.model.graph.initializers.items():
        ours = after.model.graph.initializers[name]
        assert value.const_value is not None and ours.const_value is not None
        assert np.array_equal(ours.const_value.numpy(), value.const_value.numpy())


def test_it_is_done_where_it_matters_alone() -> None:
    assert balanced(heads())[1] == [] and balanced(heads(), "n_v0", "n_y")[1] == []
