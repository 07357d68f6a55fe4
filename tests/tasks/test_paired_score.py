"""Two precisions in the same task, by values whose comparison is known."""

from __future__ import annotations

from math import inf, isnan, log
from typing import Any

import numpy as np
import pytest
from scipy import stats

from quantflow.artifacts.comparison import PairedScore, Precision
from quantflow.config import TaskKind
from quantflow.tasks.judgement import Judgement
from quantflow.tasks.paired_score import Pairing
from quantflow.tasks.similarity import similarity_score, similarity_statistic


def compare(
    kind: TaskKind, model: Any, baseline: Any, *, higher: bool = True, drop: float | None = 0.01,
    weights: Any = None,
) -> PairedScore:  # fmt: skip
    found: dict[Precision, Judgement] = {
        "int8": Judgement.of_values(np.asarray(model, float), weights),
        "fp16": Judgement.of_values(np.asarray(baseline, float), weights),
    }
    return Pairing(kind, higher, drop, seed=0)("int8", "fp16", found)


def test_answers_are_compared_by_mcnemar() -> None:
    baseline = np.repeat([1, 1, 0, 0], [80, 12, 5, 3])
    model = np.repeat([1, 0, 1, 0], [80, 12, 5, 3])
    found = compare("classification", model, baseline, drop=0.005)
    assert (found.lost, found.gained, found.samples) == (12, 5, 100)
    assert found.damage == pytest.approx(0.07)
    assert found.p_value == pytest.approx(stats.binomtest(5, 17).pvalue)
    assert found.low < 0 < found.damage < found.high  # 0.14 is not significant
    # (1.959964 sqrt(.17) + 0.841621 sqrt(.17 - .005^2))^2 / .005^2
    by_hand = (1.959964 * 0.17**0.5 + 0.841621 * (0.17 - 0.005**2) ** 0.5) ** 2 / 0.005**2
    assert found.samples_needed == pytest.approx(by_hand, abs=1)
    assert 0.1 < found.detectable_drop < 0.12 and found.asked_drop == 0.005
    other = compare("classification", baseline, model, drop=0.005)
    assert (other.damage, other.p_value) == (-found.damage, found.p_value)


def test_misses_are_answers_the_other_way_round() -> None:
    misses, fewer = np.repeat([1, 0], [9, 91]), np.repeat([1, 0], [4, 96])
    found = compare("function", misses, fewer, higher=False)
    assert (found.lost, found.gained) == (5, 0) and found.damage == pytest.approx(0.05)
    assert found.p_value == pytest.approx(2 / 2**5)


def test_answers_that_all_agree_still_leave_doubt() -> None:
    found = compare("agreement", np.ones(50), np.ones(50), drop=0.005)
    assert (found.damage, found.p_value) == (0, 1) and found.low < 0 < found.high
    assert found.samples_needed is not None and found.samples_needed > 1000
    assert 0.1 < found.detectable_drop < 0.2
    assert compare("agreement", np.ones(3), np.ones(3)).detectable_drop == inf


def test_shares_of_decisions_and_ranks_are_no_answers() -> None:
    rng = np.random.default_rng(0)
    baseline = rng.uniform(0.5, 1, 200)
    model = baseline - rng.normal(0.02, 0.1, 200)
    for kind in ("agreement", "retrieval", "function"):
        found = compare(kind, model, baseline)
        assert found.lost is found.gained is found.p_value is None
        assert found.damage == pytest.approx(float((baseline - model).mean()))
        spread = float((baseline - model).std(ddof=1))
        assert found.detectable_drop == pytest.approx(2.801585 * spread / 200**0.5, rel=1e-5)
        assert found.samples_needed == np.ceil((2.801585 * spread / 0.01) ** 2)
    ones = compare("retrieval", np.ones(9), np.ones(9))  # found at once by both: no answers either
    assert ones.p_value is None and isnan(ones.detectable_drop) and ones.samples_needed is None


def test_losses_are_weighted_by_tokens_and_what_has_none_is_left_out() -> None:
    weights = np.array([10.0, 30.0, 0.0])
    model, baseline = np.array([3.0, 2.5, np.nan]), np.array([2.0, 2.3, np.nan])
    found = compare("perplexity", model, baseline, higher=False, drop=log(1.05), weights=weights)
    assert found.damage == pytest.approx((10 * 1 + 30 * 0.2) / 40) and found.samples == 2
    assert found.low <= found.damage <= found.high and found.p_value is None


def test_a_correlation_is_compared_over_resampled_documents() -> None:
    rng = np.random.default_rng(3)
    exact = rng.standard_normal((12, 5)).astype(np.float32)
    noisy = exact + rng.standard_normal((12, 5)).astype(np.float32) / 2
    scores = np.corrcoef(exact) + rng.standard_normal((12, 12)) / 10
    found: dict[Precision, Judgement] = {
        "int8": Judgement(12, similarity_statistic(noisy, scores)),
        "fp32": Judgement(12, similarity_statistic(exact, scores)),
    }
    got = Pairing("similarity", True, 0.01, seed=5)("int8", "fp32", found)
    assert got.damage == similarity_score(exact, scores) - similarity_score(noisy, scores)
    draws = [np.random.default_rng(5)] * 1
    values = list[float]()
    for _ in range(1000):
        draw = draws[0].integers(0, 12, 12)
        values.append(found["fp32"].statistic(draw) - found["int8"].statistic(draw))
    assert (got.low, got.high) == pytest.approx(tuple(np.nanquantile(values, [0.025, 0.975])))
    error = float(np.nanstd(values, ddof=1))
    assert got.detectable_drop == pytest.approx(2.801585 * error, rel=1e-5)
    assert got.samples_needed == pytest.approx(12 * (2.801585 * error / 0.01) ** 2, abs=1)
    assert got.samples == 12 and got.p_value is None


def test_without_a_drop_to_look_for_no_number_of_samples_is_told() -> None:
    found = compare("function", [3.0, 4.5], [2.0, 5.0], drop=None)
    assert found.samples_needed is None and found.asked_drop is None
    assert found.detectable_drop > 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_value_that_is_not_finite_leaves_nothing_to_say(bad: float) -> None:
    found = compare("retrieval", [bad, 1.0, 0.5], [1.0, 1.0, 0.5])
    assert all(map(isnan, (found.damage, found.low, found.high, found.detectable_drop)))
    assert found.samples_needed is None


def test_figures_of_a_judgement_have_their_intervals() -> None:
    values = np.repeat([1.0, 0.0], [30, 10])
    judged = Judgement.of_values(values, details={"top5": np.ones(40)})
    score = judged.score(seed=0)
    assert score.value == 0.75
    # 1.96 standard errors are sqrt(.75 .25 / 40) 1.96 = 0.134.
    assert score.low == pytest.approx(0.616, abs=0.03) and score.high == pytest.approx(
        0.884, abs=0.03
    )
    assert judged.detail_scores(seed=0)["top5"].low == 1
    assert isnan(Judgement.of_values(np.array([1, np.nan])).score(seed=0).low)
