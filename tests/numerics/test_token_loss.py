"""The loss of every next token, against its definition and torch's cross entropy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.numerics.token_loss import mean_token_loss, token_losses


def text(length: int, words: int, seed: int = 0, scale: float = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=scale, size=(length, words)).astype(np.float32)
    return logits, rng.integers(0, words, length)


def test_by_hand() -> None:
    logits = np.log(np.float32([[1, 3], [1, 1], [7, 2]]))  # probabilities 1/4, 3/4; 1/2, 1/2
    found = token_losses(logits, np.array([0, 1, 0]))
    assert found == pytest.approx([-math.log(3 / 4), -math.log(1 / 2)], rel=1e-7)
    assert mean_token_loss(np.array([0, 1, 0]), logits) == pytest.approx(found.mean())


@settings(max_examples=30)
@given(st.integers(2, 200), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_as_torch_has_it(length: int, words: int, seed: int) -> None:
    logits, tokens = text(length, words, seed)
    expected = torch.nn.functional.cross_entropy(
        torch.from_numpy(logits[:-1]).double(), torch.from_numpy(tokens[1:]), reduction="none"
    )
    assert token_losses(logits, tokens) == pytest.approx(expected.numpy(), rel=1e-10, abs=1e-10)


def test_adding_a_number_to_all_logits_of_a_position_changes_nothing() -> None:
    logits, tokens = text(9, 7)
    moved = logits + np.float32(2) ** np.arange(9, dtype=np.float32)[:, None]
    assert token_losses(moved, tokens) == pytest.approx(token_losses(logits, tokens), abs=1e-4)


def test_logits_of_any_size_do_not_overflow() -> None:
    logits = np.float32([[3e38, -3e38], [-3e38, 3e38], [0, 0]])
    assert token_losses(logits, np.array([0, 0, 1])) == pytest.approx([0, 0], abs=1e-9)
    assert token_losses(logits, np.array([0, 1, 0])) == pytest.approx([6e38, 6e38], rel=1e-6)


def test_a_position_that_is_not_finite_is_nan_and_no_other() -> None:
    for bad in (np.nan, np.inf):
        logits, tokens = text(6, 4)
        logits[2, 1] = bad
        with np.errstate(all="raise"):
            assert np.flatnonzero(np.isnan(token_losses(logits, tokens))).tolist() == [2]


def test_a_word_that_cannot_come_is_infinitely_surprising() -> None:
    logits = np.float32([[0, -np.inf], [0, 0]])
    assert token_losses(logits, np.array([0, 0])).tolist() == [0]
    assert token_losses(logits, np.array([0, 1])).tolist() == [np.inf]


def test_one_token_foretells_nothing() -> None:
    assert token_losses(np.zeros((1, 3), np.float32), np.array([2])).shape == (0,)
    assert math.isnan(mean_token_loss(np.array([2]), np.zeros((1, 3), np.float32)))
