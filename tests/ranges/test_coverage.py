"""Range coverage: an exact test, quiet on exchangeable data, loud where deployment leaves it."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.artifacts.coverage_record import CoverageRow
from quantflow.artifacts.record import Verdict
from quantflow.numerics.quantize import activation_params
from quantflow.ranges.bounds import Bounds
from quantflow.ranges.collect import TensorStatistics
from quantflow.ranges.coverage import FAR, coverage_report, coverage_row
from quantflow.ranges.exceedance import exceedance_p_value, two_sided_p_value
from quantflow.ranges.grid import observe
from quantflow.ranges.saturation import outside_fraction


def statistics(samples: np.ndarray) -> TensorStatistics:
    """What a pass over ``(S, V)`` samples keeps of one tensor."""
    values = samples.astype(np.float32)
    return TensorStatistics(
        histogram=observe(values),
        sample_low=values.min(1).astype(np.float64),
        sample_high=values.max(1).astype(np.float64),
        nonfinite_samples=(),
        rows={},
    )


def row(
    calibration: np.ndarray,
    heldout: np.ndarray,
    *,
    chosen: tuple[float, float] | None = None,
    tensors: int = 1,
) -> CoverageRow:
    seen, held = observe(calibration.astype(np.float32)), statistics(heldout)
    low, high = chosen or (seen.low, seen.high)
    ids = [f"held[{i}]" for i in range(len(heldout))]
    bounds, samples = Bounds(low, high), len(calibration)
    return coverage_row("t", "group", seen, held, ids, bounds, samples=samples, tensors=tensors)


# --- the probability ---------------------------------------------------------------------------


def enumerated(exceeding: int, n: int, m: int) -> float:
    """Share of the orders of n + m samples whose top `exceeding` are all held-out ones."""
    orders = list(combinations(range(n + m), m))  # ranks of the held-out samples
    top = set(range(n + m - exceeding, n + m))
    return sum(top <= set(order) for order in orders) / len(orders)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 4), (2, 3), (4, 2), (5, 5), (3, 6)])
def test_the_p_value_is_that_of_counting_all_orders(n: int, m: int) -> None:
    for k in range(m + 1):
        assert exceedance_p_value(k, n, m) == pytest.approx(enumerated(k, n, m), rel=1e-12)


@settings(max_examples=50)
@given(st.integers(1, 300), st.integers(1, 300), st.data())
def test_the_p_value_is_a_ratio_of_binomials(n: int, m: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, m))
    expected = comb(n + m - k, n) / comb(n + m, n)  # where the n calibration samples may stand
    assert exceedance_p_value(k, n, m) == pytest.approx(expected, rel=1e-9)


def test_the_p_value_is_the_share_seen_in_simulation() -> None:
    rng = np.random.default_rng(0)
    n, m, draws = 12, 8, 40_000
    values = rng.standard_cauchy((draws, n + m))
    exceeding = (values[:, n:] > values[:, :n].max(1, keepdims=True)).sum(1)
    for k in range(5):
        seen = float((exceeding >= k).mean())
        p = exceedance_p_value(k, n, m)
        assert seen == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / draws) + 1e-12)


@settings(max_examples=30)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_the_two_sided_p_value_bounds_that_of_counting_all_draws(n: int, m: int, seed: int) -> None:
    # Every way to say which of n + m samples are held-out ones, for any lows with any highs.
    low, high = np.random.default_rng(seed).normal(size=(2, n + m))
    found = list[tuple[int, float]]()
    for chosen in combinations(range(n + m), m):
        held = np.isin(np.arange(n + m), chosen)
        below, above = low[held] < low[~held].min(), high[held] > high[~held].max()
        found.append((int((below | above).sum()), two_sided_p_value(below, above, n)))
    for _, p in found:
        assert np.mean([other <= p for _, other in found]) <= p + 1e-12


def test_samples_beyond_either_side_add_up() -> None:
    # 8 of 32 on each side: less likely than 8 on one, though of either side alone it is the same.
    below, above = np.arange(32) < 8, np.arange(32) >= 24
    none = np.zeros(32, np.bool_)
    assert two_sided_p_value(below, above, 32) < two_sided_p_value(below, none, 32) / 10


# --- exchangeable and shifted data -------------------------------------------------------------


@pytest.mark.parametrize("kind", ["normal", "cauchy", "one-sided", "discrete"])
def test_draws_of_one_distribution_rarely_warn(kind: str) -> None:
    rng = np.random.default_rng(1)
    draw = {
        "normal": lambda size: rng.normal(size=size),
        "cauchy": lambda size: rng.standard_cauchy(size),
        "one-sided": lambda size: np.maximum(rng.normal(size=size), 0),
        "discrete": lambda size: rng.integers(-4, 5, size).astype(float),
    }[kind]
    trials, tensors, bad = 200, 3, 0
    for _ in range(trials):
        rows = [row(draw((24, 16)), draw((20, 16)), tensors=tensors) for _ in range(tensors)]
        # Of Cauchy's distribution, single samples do reach far.
        bad += any(x.verdict != "pass" and (kind != "cauchy" or x.reach < FAR) for x in rows)
        assert all(x.verdict != "fail" or x.p_value < 0.01 for x in rows)
    assert bad / trials <= 0.02


def test_samples_of_differing_lengths_are_no_excess() -> None:
    # What a sample reaches depends on its length, but both sets have the same mixture of lengths.
    rng = np.random.default_rng(2)
    bad = 0
    for _ in range(100):
        sets = list[np.ndarray]()
        for count in (32, 32):
            values = rng.normal(size=(count, 64))
            lengths = rng.integers(1, 65, (count, 1))
            sets.append(np.where(np.arange(64) < lengths, values, 0))
        bad += row(*sets).verdict != "pass"
    assert bad <= 2


def test_a_shift_fails_and_says_where() -> None:
    rng = np.random.default_rng(3)
    calibration, heldout = rng.normal(size=(32, 16)), rng.normal(size=(32, 16))
    heldout[[4, 9, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29]] *= 3
    heldout[9, 0] = 40
    found = row(calibration, heldout, tensors=5)
    assert found.verdict == "fail" and found.p_value < 0.01
    low, high = np.float32(calibration.min()), np.float32(calibration.max())
    outside = (heldout < low) | (heldout > high)
    assert found.samples_outside_fraction == pytest.approx(outside.any(1).mean(), abs=1 / 32)
    assert found.outside_fraction == pytest.approx(outside.mean(), abs=0.01)
    assert found.worst_samples[0] == "held[9]" and len(found.worst_samples) == 3
    report = coverage_report([row(calibration, calibration), found], 32, 32)
    assert report.verdict == "fail"
    (reason,) = report.reasons
    assert reason.startswith("group: ") and "%" in reason


@pytest.mark.parametrize("side", [-1, 1])
def test_an_excess_of_either_side_is_found(side: int) -> None:
    rng = np.random.default_rng(4)
    calibration = rng.normal(size=(32, 16))
    heldout = rng.normal(size=(32, 16))
    heldout[:, 0] = side * 9
    found = row(calibration, heldout)
    assert found.verdict == "fail" and found.samples_outside_fraction == 1
    # The distance beyond the extreme, over the calibrated range.
    low, high = float(calibration.min()), float(calibration.max())
    beyond = 9 - high if side == 1 else low + 9
    assert found.reach == pytest.approx(1 + beyond / (high - low), rel=1e-4)


def test_short_prompts_do_not_cover_what_long_answers_do() -> None:
    # Prefill-like calibration, decode-like traffic (C32): a value that grows with the position.
    rng = np.random.default_rng(5)
    growth = np.linspace(1, 4, 256)
    calibration = (rng.normal(size=(48, 256)) * growth)[:, :32]
    heldout = rng.normal(size=(48, 256)) * growth
    assert row(calibration, heldout, tensors=30).verdict == "fail"
    assert row(heldout[:24], heldout[24:], tensors=30).verdict == "pass"


def test_few_samples_cannot_tell() -> None:
    calibration, heldout = np.zeros((3, 4)), np.full((3, 4), 100.0)
    calibration[:, 0], calibration[:, 1] = 1, -1
    found = row(calibration, heldout)
    # Three of three beyond: 1 in 20, for two sides 1 in 10, for two tests 1 in 5.
    assert found.p_value == pytest.approx(0.2) and found.samples_outside_fraction == 1
    assert found.verdict == "warn"  # they reach 50 times as far
    assert row(calibration, calibration * 1.5).verdict == "pass"


# --- what is no number -------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("named", [True, False])
def test_deployment_without_a_finite_value_fails_and_says_so(named: bool) -> None:
    values = np.full((4, 8), np.nan, np.float32)
    values[1] = np.inf
    held = [f"held[{i}]" for i in range(4)] if named else []
    none = TensorStatistics(
        histogram=observe(values),
        sample_low=np.full(4, np.inf),
        sample_high=np.full(4, -np.inf),
        nonfinite_samples=tuple(held),
        rows={},
    )
    seen = observe(np.linspace(-1, 1, 8, dtype=np.float32))
    found = coverage_row("t", "group", seen, none, held, Bounds(-1, 1), samples=4, tensors=1)
    assert found.verdict == "fail" and found.reach == 1 and found.worst_samples == ()
    assert found.samples_outside_fraction == 1 and found.nonfinite == 32
    report = coverage_report([found], 4, 4, "held-out samples" if named else "profile")
    where = ", in held[0], held[1], held[2], held[3]" if named else ""
    expected = f"group: 32 values are NaN or Inf on the deployment samples{where}"
    assert report.verdict == "fail" and report.reasons == (expected,)


def test_one_nan_among_good_values_fails_and_comes_first() -> None:
    rng = np.random.default_rng(10)
    values = rng.uniform(-1, 1, (20, 8))
    held = statistics(values)
    broken = values.astype(np.float32)
    broken[7, 3] = np.nan
    held = TensorStatistics(
        observe(broken), held.sample_low, held.sample_high, ("held[7]",), held.rows
    )
    ids = [f"held[{i}]" for i in range(20)]
    seen = observe(values.astype(np.float32))
    found = coverage_row("t", "bad", seen, held, ids, Bounds(-1, 1), samples=20, tensors=1)
    assert (found.verdict, found.nonfinite, found.nonfinite_samples) == ("fail", 1, ("held[7]",))
    far = row(np.full((20, 4), 3.0), np.full((20, 4), 4.0))
    reasons = coverage_report([far, found], 20, 20).reasons
    assert reasons[0] == "bad: 1 value is NaN or Inf on the deployment samples, in held[7]"
    assert reasons[1].startswith("group: 100% of the deployment samples leave")


def test_a_sample_without_any_value_is_no_nan() -> None:
    # Such as an expert that no token of it is sent to.
    held = statistics(np.tile([-1.0, 1.0], (20, 1)))
    low, high = held.sample_low.copy(), held.sample_high.copy()
    low[3:15], high[3:15] = np.inf, -np.inf
    held = TensorStatistics(held.histogram, low, high, (), held.rows)
    ids = [f"held[{i}]" for i in range(20)]
    seen, bounds = held.histogram, Bounds(-1, 1)
    found = coverage_row("t", "g", seen, held, ids, bounds, samples=20, tensors=1)
    assert found.verdict == "pass" and found.samples_outside_fraction == 0


# --- what counts as outside --------------------------------------------------------------------


@settings(max_examples=60)
@given(st.integers(-1600, 1600), st.integers(0, 1600), st.sampled_from([0.2, 0.4, 0.6, 2.0]))
def test_less_than_half_a_step_beyond_does_not_count(start: int, width: int, part: float) -> None:
    # The step of the range that INT8 would have: zero is always in it.
    low, high = start / 16, (start + width) / 16
    if low == high == 0:
        return
    step = activation_params(low, high, symmetric=False).scale
    calibration = np.tile([low, high], (20, 1))
    heldout = np.tile([low, high + part * step], (20, 1))
    found = row(calibration, heldout)
    assert (found.verdict != "pass") == (part > 0.5)
    assert found.samples_outside_fraction == (part > 0.5)


@pytest.mark.parametrize("value", [0.0, 3.0, -2.5, 1e-30])
def test_a_constant_tensor_that_stays_constant_passes(value: float) -> None:
    found = row(np.full((20, 4), value), np.full((20, 4), value))
    assert found.verdict == "pass" and found.p_value == 1 and found.reach == 1
    assert found.outside_fraction == 0 and found.worst_samples == ()


def test_a_constant_tensor_may_wobble_by_rounding() -> None:
    heldout = np.full((20, 4), 3.0)
    heldout[:, 0] = np.nextafter(np.float32(3), np.float32(4))
    assert row(np.full((20, 4), 3.0), heldout).verdict == "pass"


def test_a_constant_tensor_that_changes_fails() -> None:
    found = row(np.full((20, 4), 3.0), np.full((20, 4), 4.0))
    assert found.verdict == "fail"
    assert found.reach == pytest.approx(4 / 3)
    (reason,) = coverage_report([found], 20, 20).reasons
    assert len(reason) < 200


def test_a_tensor_that_was_always_zero_and_no_longer_is_fails_in_readable_words() -> None:
    found = row(np.zeros((20, 4)), np.full((20, 4), 5.0))
    assert found.verdict == "fail" and np.isfinite(found.reach)
    (reason,) = coverage_report([found], 20, 20).reasons
    assert len(reason) < 200


def test_a_tensor_that_calibration_saw_no_finite_value_of_is_no_crash() -> None:
    seen, held = observe(np.full((4, 2), np.nan, np.float32)), statistics(np.ones((4, 2)))
    ids, bounds = list("abcd"), Bounds(0, 0)
    found = coverage_row("t", "g", seen, held, ids, bounds, samples=4, tensors=1)
    assert CoverageRow.model_validate_json(found.model_dump_json()) == found


def test_what_the_range_in_force_clips_is_said_beside_it() -> None:
    rng = np.random.default_rng(6)
    values = rng.uniform(-1, 1, (40, 64))
    found = row(values[:20], values[20:], chosen=(-0.5, 0.25))
    held = values[20:]
    expected = ((held < -0.5) | (held > 0.25)).mean()
    assert found.clipped_fraction == pytest.approx(expected, abs=0.01)
    assert found.verdict == "pass"


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 3), st.floats(0.05, 3))
def test_the_outside_share_is_numpy_s(seed: int, below: float, above: float) -> None:
    values = np.random.default_rng(seed).normal(size=4000).astype(np.float32)
    expected = ((values < -below) | (values > above)).mean()
    found = outside_fraction(observe(values), Bounds(-below, above))
    assert found == pytest.approx(expected, abs=0.02)
    assert outside_fraction(observe(values), Bounds(-10, 10)) == 0


# --- a profile in place of samples -------------------------------------------------------------


def test_a_profile_is_judged_like_the_samples_it_was_made_of() -> None:
    rng = np.random.default_rng(7)
    calibration, heldout = rng.normal(size=(32, 16)), rng.normal(size=(40, 16)) * 1.7
    seen, held = observe(calibration.astype(np.float32)), statistics(heldout)
    order = rng.permutation(40)  # a profile has its own order, and no ids
    profiled = TensorStatistics(
        held.histogram, held.sample_low[order], held.sample_high[order], (), {}
    )
    ids = [f"held[{i}]" for i in range(40)]
    bounds = Bounds(-2, 2)
    expected = coverage_row("t", "g", seen, held, ids, bounds, samples=32, tensors=3)
    found = coverage_row("t", "g", seen, profiled, (), bounds, samples=32, tensors=3)
    assert expected.worst_samples and expected.verdict == "fail"
    assert found == expected.model_copy(update={"worst_samples": ()})
    report = coverage_report([found], 32, 40, "profile")
    assert report.deployment == "profile" and report.heldout_samples == 40
    assert report.reasons == coverage_report([expected], 32, 40).reasons


# --- how far ----------------------------------------------------------------------------------


def test_few_samples_that_reach_far_are_a_warning() -> None:
    # 10 of 200 at six times the range, of which 64 calibration samples saw nothing: no rank tells.
    rng = np.random.default_rng(11)
    calibration, heldout = rng.uniform(-1, 1, (64, 16)), rng.uniform(-1, 1, (200, 16))
    heldout[:10] *= 6
    far = row(calibration, heldout, tensors=50)
    assert far.p_value > 0.01 and far.reach > FAR and far.verdict == "warn"
    heldout[:10] /= 2
    assert row(calibration, heldout, tensors=50).verdict == "pass"
    (reason,) = coverage_report([far], 64, 200).reasons
    assert "5% of the deployment samples" in reason and f"{far.reach:.3g} times" in reason


# --- verdicts ----------------------------------------------------------------------------------


def test_a_certain_but_small_excess_warns() -> None:
    # 12 of 200 beyond an extreme that 1 in 200 would pass.
    calibration = np.tile([-1.0, 1.0], (200, 1))
    heldout = np.tile([-1.0, 1.0], (200, 1))
    heldout[:12, 1] = 2
    found = row(calibration, heldout)
    assert found.expected_fraction == pytest.approx(2 / 201)
    assert found.samples_outside_fraction == pytest.approx(0.06)
    assert found.verdict == "warn"


def test_more_tensors_ask_for_more_evidence() -> None:
    calibration = np.tile([-1.0, 1.0], (20, 1))
    heldout = np.tile([-1.0, 1.0], (20, 1))
    heldout[:9, 1] = 2
    one, many = row(calibration, heldout), row(calibration, heldout, tensors=100)
    assert many.p_value == pytest.approx(min(1, 100 * one.p_value))
    assert one.verdict == "fail" and many.verdict == "pass"


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [((), "pass"), (("pass", "warn"), "warn"), (("warn", "fail", "pass"), "fail")],
)
def test_a_report_is_as_bad_as_its_worst_row(
    verdicts: tuple[Verdict, ...], expected: Verdict
) -> None:
    good = row(np.tile([-1.0, 1.0], (5, 1)), np.tile([-1.0, 1.0], (5, 1)))
    rows = [
        good.model_copy(update={"verdict": v, "group": v, "p_value": 0.1 * i})
        for i, v in enumerate(verdicts)
    ]
    report = coverage_report(rows, 5, 5)
    assert report.verdict == expected
    assert [reason.split(":")[0] for reason in report.reasons] == [
        v for v in verdicts if v != "pass"
    ]
