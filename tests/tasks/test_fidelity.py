"""Fidelity sums up the samples' cosines, and leaves none of them out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.tasks.fidelity import fidelity


@settings(max_examples=50)
@given(
    cosines=st.lists(st.floats(-1, 1), min_size=1, max_size=12),
    seed=st.integers(0, 2**32 - 1),
)
def test_mean_minimum_worst_and_interval_follow_from_the_samples(
    cosines: list[float], seed: int
) -> None:
    ids = [f"evaluation[{i}]" for i in range(len(cosines))]
    errors = np.arange(len(cosines), dtype=np.float64)
    got = fidelity(np.array(cosines), errors, ids, seed=seed)
    assert got.cosine_mean == pytest.approx(sum(cosines) / len(cosines), abs=1e-12)
    assert got.cosine_min == min(cosines)
    assert got.max_abs_error == len(cosines) - 1
    by_cosine = sorted(range(len(cosines)), key=lambda i: cosines[i])
    assert got.worst_samples == tuple(ids[i] for i in by_cosine[:5])
    assert min(cosines) - 1e-12 <= got.cosine_low <= got.cosine_high <= max(cosines) + 1e-12


def test_the_interval_is_the_bootstrap_of_the_mean() -> None:
    cosines = np.cos(np.linspace(0, 1, 40))
    got = fidelity(cosines, np.zeros(40), [str(i) for i in range(40)], seed=0)
    # The bootstrap's standard error of a mean, and the normal approximation of its quantiles.
    error = cosines.std() / np.sqrt(40)
    assert got.cosine_low == pytest.approx(cosines.mean() - 1.96 * error, abs=0.3 * error)
    assert got.cosine_high == pytest.approx(cosines.mean() + 1.96 * error, abs=0.3 * error)


def test_a_sample_that_is_not_finite_is_the_worst_and_spoils_the_mean() -> None:
    cosines, errors = np.linspace(0.9, 1, 8), np.zeros(8)
    cosines[6] = np.nan
    errors[6] = np.inf
    got = fidelity(cosines, errors, [str(i) for i in range(8)], seed=0)
    assert got.worst_samples == ("6", "0", "1", "2", "3")
    for value in (got.cosine_mean, got.cosine_min, got.cosine_low, got.cosine_high):
        assert np.isnan(value)
    assert got.max_abs_error == np.inf
    assert type(got).model_validate_json(got.to_json()).worst_samples == got.worst_samples


def test_lengths_must_agree() -> None:
    for cosines, errors, ids in (
        (np.ones(2), np.ones(2), ["a"]),
        (np.ones(1), np.ones(2), ["a"]),
        (np.ones(0), np.ones(0), []),
    ):
        with pytest.raises(ValueError, match="ids"):
            fidelity(cosines, errors, ids, seed=0)
