"""Perplexity, against its definition and torch's cross entropy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from quantflow.errors import QuantflowError
from quantflow.tasks.perplexity import TextLosses, perplexity, perplexity_interval, rise


def texts(lengths: list[int], words: int = 11) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(5)
    return [
        (rng.integers(0, words, n), rng.normal(scale=2, size=(n, words)).astype(np.float32))
        for n in lengths
    ]


def losses_of(found: list[tuple[np.ndarray, np.ndarray]]) -> TextLosses:
    losses = TextLosses("ids", len(found))
    for index, (tokens, logits) in enumerate(found):
        losses.add(index, {"ids": tokens}, {"logits": logits})
    return losses


def test_brute_force_and_torch_agree_over_texts_of_differing_length() -> None:
    found = texts([5, 90, 2])
    losses = losses_of(found)
    log_likelihood, count = 0.0, 0
    for tokens, logits in found:
        for position in range(len(tokens) - 1):
            weights = [math.exp(float(x)) for x in logits[position]]
            log_likelihood += math.log(weights[tokens[position + 1]] / sum(weights))
            count += 1
    value = perplexity(losses.sums, losses.counts)
    assert value == pytest.approx(math.exp(-log_likelihood / count), rel=1e-9)
    together = torch.nn.functional.cross_entropy(
        torch.cat([torch.from_numpy(logits[:-1]).double() for _, logits in found]),
        torch.cat([torch.from_numpy(tokens[1:]) for tokens, _ in found]),
    )
    assert value == pytest.approx(float(together.exp()), rel=1e-9)


def test_a_model_that_knows_nothing_has_as_many_choices_as_words() -> None:
    tokens = np.arange(7)
    losses = losses_of([(tokens, np.zeros((7, 49), np.float32))])
    assert perplexity(losses.sums, losses.counts) == pytest.approx(49)


def test_a_model_that_knows_the_text_has_one() -> None:
    tokens = np.array([3, 1, 2])
    logits = np.full((3, 4), -100, np.float32)
    logits[[0, 1], tokens[1:]] = 100
    losses = losses_of([(tokens, logits)])
    assert perplexity(losses.sums, losses.counts) == pytest.approx(1)


def test_the_interval_holds_the_value_and_is_over_texts() -> None:
    losses = losses_of(texts([40] * 12))
    low, high = perplexity_interval(losses.sums, losses.counts, seed=0)
    assert low < perplexity(losses.sums, losses.counts) < high
    assert (low, high) == perplexity_interval(losses.sums, losses.counts, seed=0)
    # Texts that are equally hard leave nothing to chance, however their tokens differ.
    same = perplexity_interval(np.full(12, 80.0), np.full(12, 40), seed=0)
    assert same == pytest.approx((math.exp(2), math.exp(2)))


def test_what_is_not_finite_is_not_hidden() -> None:
    found = texts([6, 6])
    found[1][1][0, 0] = np.nan
    losses = losses_of(found)
    assert math.isnan(perplexity(losses.sums, losses.counts))
    assert np.isnan(perplexity_interval(losses.sums, losses.counts, seed=0)).all()
    assert math.isnan(perplexity(np.zeros(1), np.zeros(1, np.int64)))
    assert perplexity(np.array([1e6]), np.array([3])) == math.inf


def test_a_rise_is_relative() -> None:
    assert rise(21, 20) == pytest.approx(0.05)
    assert math.isnan(rise(math.inf, math.inf)) and math.isnan(rise(math.nan, 2))


@pytest.mark.parametrize(
    ("shape", "tokens"), [((5,), [1] * 5), ((4, 9), [1] * 5), ((5, 9), [1, 2, 9, 0, 0])]
)
def test_outputs_that_are_no_logits_of_the_tokens_are_refused(
    shape: tuple[int, ...], tokens: list[int]
) -> None:
    with pytest.raises(QuantflowError) as caught:
        losses_of([(np.array(tokens), np.zeros(shape, np.float32))])
    assert caught.value.problems[0].code == "QF310"
