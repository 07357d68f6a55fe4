"""`auto` leaves min-max only for ranges that lower the error of the layers' outputs clearly."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from quantflow.ranges.auto import MIN_GAIN, MOST_WORSE, Trial, choose, output_errors
from quantflow.ranges.bounds import Bounds
from quantflow.ranges.views import Reader

RNG = np.random.default_rng(11)
ROWS = RNG.standard_normal((64, 32)).astype(np.float32)
WEIGHT = RNG.standard_normal((32, 24)).astype(np.float32)


def _reference_error(
    rows: NDArray[np.float32],
    weights: list[NDArray[np.float32]],
    bounds: Bounds,
    symmetric: bool,
    per_channel: bool,
) -> float:
    """Mean over rows of ||error||^2 / ||output||^2, one row and one column at a time."""
    levels, lowest = (254, -127) if symmetric else (255, -128)
    low, high = min(bounds.low, 0), max(bounds.high, 0)
    scale = max(-low, high) / 127 if symmetric else (high - low) / levels
    zero = 0 if symmetric else lowest - round(low / scale)
    q = np.clip(np.rint(rows.astype(np.float64) / scale) + zero, -128, 127)
    x = (q - zero) * scale
    total = np.zeros(len(rows))
    power = np.zeros(len(rows))
    for weight in weights:
        for column in weight.T.astype(np.float64):
            top = np.abs(column if per_channel else weight).max()
            step = top / 127 if top else 1
            total += (x @ (np.rint(column / step) * step) - rows @ column) ** 2
            power += (rows @ column) ** 2
    return float(np.mean(total / power))


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
def test_errors_are_those_of_the_definition(symmetric: bool, per_channel: bool) -> None:
    weights = [WEIGHT, WEIGHT[:, :5] * 40]
    candidates = {"minmax": Bounds(-4.1, 3.8), "narrow": Bounds(-1.5, 1.0), "side": Bounds(0, 2)}
    trial = Trial(ROWS, [Reader(x[None], per_channel=per_channel) for x in weights])
    found = output_errors([trial], candidates, symmetric=symmetric)
    for name, bounds in candidates.items():
        expected = _reference_error(ROWS, weights, bounds, symmetric, per_channel)
        assert found[name] == pytest.approx(expected, rel=1e-3)


def _trials(rows: NDArray[np.float32]) -> list[Trial]:
    return [Trial(rows, [Reader(WEIGHT[None])])]


def _choose(rows: NDArray[np.float32], candidates: dict[str, Bounds]):
    return choose(_trials(rows), candidates, symmetric=False)


def test_an_outlier_that_no_sampled_row_holds_is_clipped() -> None:
    choice = _choose(ROWS, {"minmax": Bounds(-400, 400), "kl": Bounds(-4.5, 4.5)})
    assert (choice.name, choice.bounds) == ("kl", (-4.5, 4.5))
    assert "below that of minmax" in choice.reason


def test_a_range_that_clips_what_matters_is_not_chosen() -> None:
    widest = Bounds(float(ROWS.min()), float(ROWS.max()))
    assert _choose(ROWS, {"minmax": widest, "kl": Bounds(-0.5, 0.5)}).name == "minmax"


def test_a_small_gain_does_not_leave_minmax() -> None:
    top = float(np.abs(ROWS).max())
    candidates = {"minmax": Bounds(-1.05 * top, 1.05 * top), "mse": Bounds(-top, top)}
    errors = output_errors(_trials(ROWS), candidates, symmetric=False)
    assert 0.8 < errors["mse"] / errors["minmax"] < 1
    assert _choose(ROWS, candidates).name == "minmax"


@pytest.mark.parametrize("rows", [np.zeros((0, 32)), np.zeros((5, 32))])
def test_without_rows_that_tell_minmax_stays(rows: NDArray[np.float64]) -> None:
    candidates = {"minmax": Bounds(0, 1), "kl": Bounds(0, 0.1)}
    assert _choose(rows.astype(np.float32), candidates).name == "minmax"


def test_small_rows_count_as_much_as_large_ones() -> None:
    # One row a thousand times as large: clipping it ruins its output, whatever the others gain.
    rows = ROWS.copy()
    rows[0] *= 1000
    candidates = {"minmax": Bounds(float(rows.min()), float(rows.max())), "mse": Bounds(-4, 4)}
    assert _choose(rows, candidates).name == "mse"


@pytest.mark.parametrize("seed", range(20))
def test_leaving_poor_candidates_early_finds_as_good_a_range(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_t(3, (rng.integers(1, 400), 32)).astype(np.float32)
    top = float(np.abs(rows).max())
    candidates = {f"{x:.3f}": Bounds(-x * top, top) for x in rng.uniform(0.05, 1, 8)}
    candidates["minmax"] = Bounds(-top, top)
    whole = output_errors(_trials(rows), candidates, symmetric=False)
    least = min(whole.values())
    found = _choose(rows, candidates).name
    if least > (1 - MIN_GAIN) * whole["minmax"]:
        assert found == "minmax"
    else:
        assert whole[found] < 1.02 * least


def test_rows_without_output_do_not_count() -> None:
    candidates = {"minmax": Bounds(-4, 4), "narrow": Bounds(-1, 1)}
    some = np.concatenate([ROWS[:5], np.zeros((3, 32), np.float32), ROWS[5:]])
    found, expected = (output_errors(_trials(x), candidates, symmetric=False) for x in (some, ROWS))
    for name, error in expected.items():
        assert found[name] == pytest.approx(error, rel=1e-5)


def _first_tokens() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Ordinary rows, and one in a hundred that alone reach beyond them, in one channel."""
    rng = np.random.default_rng(0)
    rows = np.clip(rng.standard_normal((990, 32)), -2, 2).astype(np.float32)
    first = np.clip(rng.standard_normal((10, 32)), -2, 2).astype(np.float32)
    first[:, 7] = 6.0
    return rows, first


def test_rows_that_reach_farthest_are_not_ruined() -> None:
    rows, first = _first_tokens()
    candidates = {"minmax": Bounds(-2, 6), "mse": Bounds(-2, 2)}
    readers = [Reader(WEIGHT[None])]
    sampled = Trial(rows[:256], readers)  # that none of them is in is a chance of one in ten
    assert choose([sampled], candidates, symmetric=False).name == "mse"
    protected = Trial(rows[:256], readers, farthest=(first,))
    choice = choose([protected], candidates, symmetric=False)
    assert choice.name == "minmax" and "mse would ruin the rows" in choice.reason
    # The definition: rows that reach farthest come out more than eight times as badly.
    before, after = (
        _reference_error(first, [WEIGHT], candidates[name], False, True)
        for name in ("minmax", "mse")
    )
    usual = _reference_error(rows[:256], [WEIGHT], candidates["minmax"], False, True)
    assert after > MOST_WORSE * max(before, usual)


def test_a_range_that_far_rows_bear_is_taken_in_place_of_one_they_do_not() -> None:
    rows, first = _first_tokens()
    first[:, 7] = 2.9
    candidates = {"minmax": Bounds(-4, 4), "mse": Bounds(-2, 2), "kl": Bounds(-2.2, 2.8)}
    trial = Trial(rows[:256], [Reader(WEIGHT[None])], farthest=(first,))
    assert choose([trial], candidates, symmetric=False).name == "kl"


def test_weights_count_rows_as_if_they_were_repeated() -> None:
    weights = np.array([1.0, 3.0] * 32)
    candidates = {"minmax": Bounds(-4, 4), "narrow": Bounds(-1, 1)}
    weighted = Trial(ROWS, [Reader(WEIGHT[None])], weights)
    repeated = np.repeat(ROWS, weights.astype(int), axis=0)
    found = output_errors([weighted], candidates, symmetric=False)
    expected = output_errors(_trials(repeated), candidates, symmetric=False)
    for name, error in expected.items():
        assert found[name] == pytest.approx(error, rel=1e-5)
