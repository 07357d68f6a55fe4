"""Ranks are the mean places over all orders of documents that are equally close."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.errors import QuantflowError
from quantflow.tasks import retrieval
from quantflow.tasks.retrieval import embedding_of, ranks, recall, reciprocal_ranks


def _cosine(a: Any, b: Any) -> float:
    x, y = a.astype(np.float64), b.astype(np.float64)
    norm = np.sqrt(x @ x) * np.sqrt(y @ y)
    return float(x @ y / norm) if norm else 0.0


def _mean_place(query: Any, documents: Any, relevant: int) -> float:
    """Brute force: the mean over every order of the documents, sorted by rounded cosine."""
    cosines = [round(_cosine(query, document), 9) for document in documents]
    places = [
        sorted(order, key=lambda i: -cosines[i]).index(relevant) + 1
        for order in permutations(range(len(documents)))
    ]
    return float(np.mean(places))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 4))
def test_a_rank_is_the_mean_place_over_all_orders_of_equals(
    seed: int, count: int, queries: int
) -> None:
    rng = np.random.default_rng(seed)
    documents = rng.integers(-1, 2, (count, 2)).astype(np.float32)  # equals, and zeros among them
    asked = rng.integers(-1, 2, (queries, 2)).astype(np.float32)
    relevant = rng.integers(0, count, queries)
    expected = [_mean_place(q, documents, int(r)) for q, r in zip(asked, relevant, strict=True)]
    assert ranks(asked, documents, relevant).tolist() == pytest.approx(expected)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    documents = rng.standard_normal((200, 8)).astype(np.float32)
    documents[100:] = documents[:100]  # each document twice, in different columns of a product
    asked = documents[:90] + rng.standard_normal((90, 8)).astype(np.float32) / 2
    relevant = np.arange(90)
    whole = ranks(asked, documents, relevant)
    monkeypatch.setattr(retrieval, "_BLOCK", 200 * 7)
    np.testing.assert_array_equal(ranks(asked, documents, relevant), whole)
    # Its twin is exactly as close: no place is a whole number.
    assert ((whole - 0.5) % 1 == 0).all() and whole.min() == 1.5


def test_embeddings_that_are_all_the_same_rank_by_chance() -> None:
    same = np.ones((9, 4), np.float32)
    assert ranks(same, same, np.arange(9)).tolist() == [5.0] * 9


@given(st.integers(0, 10**6), st.integers(-8, 8))
def test_only_directions_count(seed: int, power: int) -> None:
    rng = np.random.default_rng(seed)
    asked, documents = rng.standard_normal((2, 6, 5)).astype(np.float32)
    other = ranks(asked * np.float32(2.0**power), documents, np.arange(6))
    np.testing.assert_array_equal(other, ranks(asked, documents, np.arange(6)))


def test_what_is_not_finite_has_no_rank() -> None:
    asked, documents = np.eye(3, dtype=np.float32), np.eye(3, dtype=np.float32)
    broken = asked.copy()
    broken[1, 0] = np.nan
    assert np.isnan(ranks(broken, documents, np.arange(3))).tolist() == [False, True, False]
    assert np.isnan(ranks(asked, broken, np.arange(3))).all()


def test_figures_of_ranks_are_those_of_their_definitions() -> None:
    found = np.array([1, 1.5, 2, 10, 10.5, np.nan])
    assert reciprocal_ranks(found)[:4].tolist() == pytest.approx([1, 2 / 3, 0.5, 0.1])
    assert recall(found, 1)[:5].tolist() == [1, 0, 0, 0, 0]
    assert recall(found, 10)[:5].tolist() == [1, 1, 1, 1, 0]
    assert np.isnan(reciprocal_ranks(found)[5]) and np.isnan(recall(found, 1)[5])


@pytest.mark.parametrize("output", [np.zeros((4, 8), np.float32), np.zeros(8, np.int64)])
def test_an_output_that_is_no_vector_is_refused(output: Any) -> None:
    with pytest.raises(QuantflowError, match="QF317"):
        embedding_of({"tokens": output})
    first = embedding_of({"pooled": np.ones(3, np.float16), "tokens": output})
    assert first.dtype == np.float32 and first.tolist() == [1, 1, 1]
