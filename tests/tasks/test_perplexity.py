"""Perplexity, against its definition and torch's cross entropy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from quantflow.errors import QuantflowError
from quantflow.tasks.figures import Figures
from quantflow.tasks.metrics import Judged, perplexity_metric


def texts(lengths: list[int], words: int = 11) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(5)
    return [
        (rng.integers(0, words, n), rng.normal(scale=2, size=(n, words)).astype(np.float32))
        for n in lengths
    ]


def figures_of(found: list[tuple[np.ndarray, np.ndarray]]) -> Figures:
    figures = Figures(perplexity_metric("ids"), len(found))
    for index, (tokens, logits) in enumerate(found):
        figures.add(index, Judged(str(index), {"ids": tokens}, {}, {"logits": logits}))
    return figures


def perplexity(found: list[tuple[np.ndarray, np.ndarray]]) -> float:
    return figures_of(found).score(seed=0).value


def test_brute_force_and_torch_agree_over_texts_of_differing_length() -> None:
    found = texts([5, 90, 2])
    log_likelihood, count = 0.0, 0
    for tokens, logits in found:
        for position in range(len(tokens) - 1):
            weights = [math.exp(float(x)) for x in logits[position]]
            log_likelihood += math.log(weights[tokens[position + 1]] / sum(weights))
            count += 1
    value = perplexity(found)
    assert value == pytest.approx(math.exp(-log_likelihood / count), rel=1e-9)
    together = torch.nn.functional.cross_entropy(
        torch.cat([torch.from_numpy(logits[:-1]).double() for _, logits in found]),
        torch.cat([torch.from_numpy(tokens[1:]) for tokens, _ in found]),
    )
    assert value == pytest.approx(float(together.exp()), rel=1e-9)


def test_a_model_that_knows_nothing_has_as_many_choices_as_words() -> None:
    assert perplexity([(np.arange(7), np.zeros((7, 49), np.float32))]) == pytest.approx(49)


def test_a_model_that_knows_the_text_has_one() -> None:
    tokens = np.array([3, 1, 2])
    logits = np.full((3, 4), -100, np.float32)
    logits[[0, 1], tokens[1:]] = 100
    assert perplexity([(tokens, logits)]) == pytest.approx(1)


def test_the_interval_holds_the_value_and_is_over_texts() -> None:
    figures = figures_of(texts([40] * 6 + [12] * 6))
    score = figures.score(seed=0)
    assert score.low < score.value < score.high
    assert score == figures.score(seed=0)
    # Texts that are equally hard leave nothing to chance, however their tokens differ.
    figures.values[:] = 2
    same = figures.score(seed=0)
    assert (same.low, same.high) == pytest.approx((math.exp(2), math.exp(2)))


def test_the_interval_is_that_of_numpy_over_drawn_texts() -> None:
    found = texts([30, 3, 3, 3, 60])
    score = figures_of(found).score(seed=4)
    sums = np.array([_loss(tokens, logits) for tokens, logits in found])
    counts = np.array([len(tokens) - 1 for tokens, _ in found])
    draws = np.random.default_rng(4).integers(0, 5, (1000, 5))
    drawn = np.exp(sums[draws].sum(1) / counts[draws].sum(1))
    expected = np.quantile(drawn, [0.025, 0.975])
    assert (score.low, score.high) == pytest.approx(tuple(expected), rel=1e-9)


def _loss(tokens: np.ndarray, logits: np.ndarray) -> float:
    """The loss of a text's tokens by torch."""
    target = torch.from_numpy(tokens[1:])
    x = torch.from_numpy(logits[:-1]).double()
    return float(torch.nn.functional.cross_entropy(x, target, reduction="sum"))


def test_a_text_of_one_token_foretells_nothing_and_changes_nothing() -> None:
    found = texts([9, 1, 9])
    assert perplexity(found) == pytest.approx(perplexity([found[0], found[2]]), rel=1e-12)
    assert math.isnan(perplexity(found[1:2]))


def test_what_is_not_finite_is_not_hidden() -> None:
    found = texts([6, 6])
    found[1][1][0, 0] = np.nan
    score = figures_of(found).score(seed=0)
    assert all(map(math.isnan, (score.value, score.low, score.high)))
    logits = np.zeros((3, 4), np.float32)
    logits[:, 0] = 1e5
    assert perplexity([(np.array([1, 2, 3]), logits)]) == math.inf


@pytest.mark.parametrize(
    ("shape", "tokens"), [((5,), [1] * 5), ((4, 9), [1] * 5), ((5, 9), [1, 2, 9, 0, 0])]
)
def test_outputs_that_are_no_logits_of_the_tokens_are_refused(
    shape: tuple[int, ...], tokens: list[int]
) -> None:
    with pytest.raises(QuantflowError) as caught:
        figures_of([(np.array(tokens), np.zeros(shape, np.float32))])
    assert caught.value.problems[0].code == "QF310"
