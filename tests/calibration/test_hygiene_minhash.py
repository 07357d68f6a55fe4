"""MinHash against exact Jaccard similarities, and planted near duplicates among others."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from quantflow.calibration.hygiene.banding import WINDOW, connect, different_rows
from quantflow.calibration.hygiene.minhash import (
    PERMUTATIONS,
    SHINGLE,
    near_duplicates,
    signature,
)

Tokens = NDArray[np.int64]


def _jaccard(a: Tokens, b: Tokens) -> float:
    """By the definition, over the sets of runs of three tokens."""
    first, second = (
        {tuple(x[i : i + SHINGLE].tolist()) for i in range(len(x) - SHINGLE + 1)} for x in (a, b)
    )
    return len(first & second) / len(first | second)


def _edited(tokens: Tokens, edits: int, rng: np.random.Generator) -> Tokens:
    changed = tokens.copy()
    changed[rng.choice(len(tokens), edits, replace=False)] = rng.integers(90_000, 99_999, edits)
    return changed


def _texts(count: int, rng: np.random.Generator, length: int = 128) -> Tokens:
    """Tokens as frequent as words are (Zipf)."""
    shares = 1 / np.arange(1, 5001)
    return rng.choice(5000, (count, length), p=shares / shares.sum())


def _partition(groups: NDArray[Any]) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(groups == g).tolist()) for g in np.unique(groups)}


def test_the_estimate_is_unbiased_and_as_precise_as_its_theory_says() -> None:
    rng = np.random.default_rng(0)
    errors: list[float] = []
    for text in _texts(400, rng):
        other = _edited(text, int(rng.integers(1, 40)), rng)
        exact = _jaccard(text, other)
        found = np.mean(signature([text]) == signature([other]))
        errors.append(float((found - exact) / np.sqrt(exact * (1 - exact) / PERMUTATIONS)))
    assert abs(np.mean(errors)) < 0.2
    assert 0.85 < np.std(errors) < 1.2


def test_equal_tokens_have_equal_signatures_and_others_share_nothing() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 2**31, (2, 500))
    assert np.array_equal(signature([a]), signature([a.astype(np.int32)]))
    assert np.mean(signature([a]) == signature([b])) < 0.05
    assert signature([a]).dtype == np.uint32


def test_short_and_negative_tokens_have_signatures_of_their_own() -> None:
    some = [[], [0], [1], [0, 0], [0, 0, 0], [-1], [-1, 0], [0, -1]]
    found = {signature([np.array(x, np.int64)]).tobytes() for x in some}
    assert len(found) == len(some)


def test_a_sequence_in_another_input_is_another_thing() -> None:
    a, b = np.arange(100) ** 2 % 97, np.arange(100) ** 3 % 89
    assert np.mean(signature([a, b]) == signature([b, a])) < 0.2
    assert np.array_equal(signature([a, b]), signature([a, b]))


def test_long_sequences_are_put_together_from_parts() -> None:
    tokens = np.random.default_rng(2).integers(0, 10**6, 30_000)
    halves = [signature([tokens[: 15_000 + SHINGLE - 1]]), signature([tokens[15_000:]])]
    np.testing.assert_array_equal(signature([tokens]), np.minimum(*halves))


def test_planted_near_duplicates_are_found_and_nothing_else() -> None:
    rng = np.random.default_rng(3)
    originals = _texts(2000, rng)
    copies = np.array([_edited(text, 2, rng) for text in originals[:300]])  # Jaccard 0.91 and more
    groups = near_duplicates(
        np.array([signature([text]) for text in np.concatenate([originals, copies])])
    )
    expected = {frozenset([i, 2000 + i]) for i in range(300)}
    assert _partition(groups) == expected | {frozenset([i]) for i in range(300, 2000)}


def test_what_shares_half_of_its_shingles_is_no_near_duplicate() -> None:
    rng = np.random.default_rng(4)
    texts = _texts(200, rng)
    others = np.array([_edited(text, 15, rng) for text in texts])
    assert max(_jaccard(a, b) for a, b in zip(texts, others, strict=True)) < 0.65
    both = np.concatenate([texts, others])
    groups = near_duplicates(np.array([signature([text]) for text in both]))
    assert len(np.unique(groups)) >= 398


def test_a_template_with_one_word_changed_is_one_group_however_large() -> None:
    rng = np.random.default_rng(5)
    texts = np.tile(_texts(1, rng), (WINDOW * 40, 1))
    texts[np.arange(len(texts)), 60] = np.arange(len(texts)) + 10_000
    groups = near_duplicates(np.array([signature([text]) for text in texts]))
    assert len(np.unique(groups)) == 1


@settings(max_examples=30)
@given(seed=st.integers(0, 2**16), count=st.integers(1, 60))
def test_groups_do_not_depend_on_the_order(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    texts = _texts(count, rng, 40)
    texts = np.concatenate([texts, [_edited(text, 1, rng) for text in texts[: count // 2 + 1]]])
    rows = np.array([signature([text]) for text in texts])
    order = rng.permutation(len(rows))
    groups, shuffled = near_duplicates(rows), near_duplicates(rows[order])
    back = np.empty_like(shuffled)
    back[order] = shuffled
    assert _partition(groups) == _partition(back)


@settings(max_examples=50)
@given(data=st.data())
def test_groups_are_connected_components(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 14))
    number = st.integers(0, count - 1)
    edges = data.draw(st.sets(st.tuples(number, number), max_size=14))

    def alike(a: NDArray[np.intp], b: NDArray[np.intp]) -> NDArray[np.bool_]:
        pairs = zip(a.tolist(), b.tolist(), strict=True)
        return np.array([(x, y) in edges or (y, x) in edges for x, y in pairs], bool)

    found = connect(np.zeros((count, 1), np.uint64), alike)  # one bucket, smaller than the window
    expected = list(range(count))
    for _ in range(count):
        for a, b in edges:
            expected[a] = expected[b] = min(expected[a], expected[b])
    assert found.tolist() == expected


def test_different_rows_are_sorted_by_content() -> None:
    rows = np.random.default_rng(6).integers(0, 3, (50, 2)).astype(np.int8)
    first, kind = different_rows(rows)
    np.testing.assert_array_equal(rows[first][kind], rows)
    assert len(first) == len({tuple(row) for row in rows.tolist()})
    reverse, _ = different_rows(rows[::-1])
    np.testing.assert_array_equal(rows[::-1][reverse], rows[first])
    assert not len(near_duplicates(np.zeros((0, PERMUTATIONS), np.uint32)))
