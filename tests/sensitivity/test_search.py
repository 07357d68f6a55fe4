"""The search: whatever accuracy does, every set is measured as a whole, and once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.sweep_record import Measure
from quantflow.sensitivity.cost import CostModel
from quantflow.sensitivity.search import Fp16, Limits, Search, growing, int8_share, strides

from .builders import record_of

LIMIT = 0.01

Damage = Callable[[Fp16], float]


def measure(damage: float, *, width: float = 0.0, limit: float | None = LIMIT, of: str = "cosine"):
    return Measure(
        metric=of, value=1 - damage, damage=damage, low=damage - width, high=damage + width,
        limit=limit,
    )  # fmt: skip


class Oracle:
    """Damage as a function of the fp16 groups; remembers what it was asked."""

    def __init__(self, damage: Damage) -> None:
        self.damage = damage
        self.asked: list[Fp16] = []

    def __call__(self, fp16: Fp16) -> tuple[Measure, ...]:
        self.asked.append(fp16)
        return (measure(self.damage(fp16)),)


def costs(macs: Mapping[str, int], boundary: float = 0.0) -> CostModel:
    """Cost of groups by their MACs, with a price for having them in INT8."""
    int8 = {name: size + boundary for name, size in macs.items()}
    return CostModel(int8, {name: 2.0 * size for name, size in macs.items()}, 0.0)


def search(
    damage: Damage,
    macs: Mapping[str, int],
    *orders: Sequence[str],
    start: Fp16 = frozenset(),
    limits: Limits | None = None,
    share: float = 1.0,
) -> tuple[Fp16, Search, Oracle]:
    oracle = Oracle(damage)
    found = Search(record_of(macs), costs(macs), limits or Limits(), oracle)
    chosen = found.run(orders or [list(macs)], start, share)
    return chosen, found, oracle


EVEN = dict.fromkeys("abcdef", 10)


def by_count(values: Sequence[float]) -> Damage:
    return lambda fp16: values[len(fp16)]


# --- what is chosen -----------------------------------------------------------------------------


def test_nothing_goes_to_fp16_when_int8_meets_the_budget() -> None:
    chosen, found, _ = search(lambda _: 0.005, EVEN)
    assert chosen == frozenset()
    first = found.curve[0]
    assert first.int8_mac_fraction == 1 and first.fp16_groups == () and first.cost == 0.5


def test_the_search_does_not_assume_that_accuracy_grows() -> None:
    # One group in fp16 is worse than none, three are worse than two; five are enough (C38).
    damages = [0.03, 0.10, 0.02, 0.40, 0.05, 0.007, 0.009]
    chosen, _, _ = search(by_count(damages), EVEN)
    assert len(chosen) == 5 and damages[len(chosen)] <= LIMIT


def test_a_set_that_meets_the_budget_is_kept_where_a_larger_one_does_not() -> None:
    chosen, _, _ = search(by_count([0.5, 0.4, 0.005, 0.3, 0.3, 0.3, 0.3]), EVEN)
    assert len(chosen) == 2


def test_sets_that_were_passed_over_are_tried_before_the_first_that_meets_the_budget() -> None:
    macs = {f"g{i:02}": 10 for i in range(14)}
    chosen, found, _ = search(lambda fp16: 0.0 if len(fp16) >= 9 else 0.1, macs)
    assert len(chosen) == 9
    sizes = {step: [len(p.fp16_groups) for p in found.curve if p.step == step] for step in STEPS}
    # 0, 1, 2, 3, then every second, third, ...: 10 is the first that meets, after 7.
    assert sizes["curve"] == [0, 1, 2, 3, 5, 7, 10, 14]
    assert sizes["refine"] == [8, 9]
    assert set(sizes["backward"]) == {8}


STEPS = ("curve", "refine", "backward")


def test_groups_that_are_not_needed_go_back_to_int8_those_that_save_most_first() -> None:
    # Only `d` matters, but the order puts it last; `b` saves most.
    macs = {"a": 20, "b": 50, "c": 10, "d": 5}
    chosen, found, oracle = search(lambda fp16: 0.001 if "d" in fp16 else 0.1, macs)
    assert chosen == {"d"}
    backward = [p.fp16_groups for p in found.curve if p.step == "backward"]
    assert backward[0] == ("a", "c", "d") and backward[1] == ("c", "d")
    assert int8_share(record_of(macs), chosen) == 80 / 85
    assert len(oracle.asked) == len(set(oracle.asked))


def test_a_group_whose_int8_costs_more_than_it_saves_does_not_go_back() -> None:
    oracle = Oracle(lambda fp16: 0.001 if "b" in fp16 else 0.1)
    macs = {"a": 10, "b": 10}
    found = Search(record_of(macs), costs(macs, boundary=30), Limits(), oracle)
    assert found.run([["a", "b"]], frozenset()) == {"a", "b"}


def test_a_pair_that_is_only_needed_together_is_kept_together() -> None:
    chosen, _, _ = search(lambda fp16: 0.005 if {"a", "c"} <= fp16 else 0.1, EVEN)
    assert chosen == {"a", "c"}


def test_of_two_groups_that_only_hurt_together_one_goes_to_fp16() -> None:
    chosen, _, _ = search(lambda fp16: 0.005 if {"e", "f"} & fp16 else 0.8, EVEN)
    assert chosen == {"e"}


def test_the_cheapest_of_several_orders_is_chosen() -> None:
    macs = {"large": 100, "small": 10, "tiny": 1}
    orders = (["large", "small", "tiny"], ["small", "large", "tiny"], ["tiny", "large", "small"])

    def damage(fp16: Fp16) -> float:
        return 0.005 if fp16 & {"large", "small"} else 0.1

    chosen, found, _ = search(damage, macs, *orders)
    assert chosen == {"small"}
    # The whole curve is that of the first order; the others end where the budget is met.
    tried = {point.fp16_groups for point in found.curve}
    assert ("large", "small", "tiny") in tried and ("tiny",) in tried
    assert ("small", "tiny") not in tried


def test_the_whole_curve_of_the_first_order_is_measured() -> None:
    _, found, oracle = search(lambda _: 0.0, EVEN)
    assert [len(p.fp16_groups) for p in found.curve] == [0, 1, 2, 3, 5, 6]
    assert len(oracle.asked) == len(found.curve)
    last = found.curve[-1]
    assert last.int8_mac_fraction == 0 and last.cost == 1


# --- nothing meets the budget -------------------------------------------------------------------


def test_without_a_set_that_meets_the_budget_the_nearest_one_tried_is_returned() -> None:
    chosen, found, _ = search(by_count([0.5, 0.4, 0.015, 0.3, 0.02, 0.3, 0.3]), EVEN)
    assert len(chosen) == 2
    assert not any(measure.meets for point in found.curve for measure in point.measures)


def test_the_cheapest_of_equally_near_sets_is_returned() -> None:
    assert search(lambda _: 0.3, EVEN)[0] == frozenset()


@pytest.mark.parametrize("count", [0, 1, 3, 6])
def test_nan_neither_meets_the_budget_nor_is_it_the_nearest(count: int) -> None:
    def damage(fp16: Fp16) -> float:
        return float("nan") if len(fp16) == count else 0.1 - 0.01 * len(fp16)

    chosen, found, _ = search(damage, EVEN)
    assert len(chosen) == (5 if count == 6 else 6)
    broken = next(p for p in found.curve if len(p.fp16_groups) == count)
    assert not broken.measures[0].meets and not broken.measures[0].meets_surely


def test_where_every_set_is_broken_the_cheapest_is_returned() -> None:
    assert search(lambda _: float("nan"), EVEN)[0] == frozenset()


# --- what the budget asks -----------------------------------------------------------------------


def test_the_end_of_the_interval_decides() -> None:
    # The mean meets the budget, but few samples cannot say so with confidence.
    def trial(fp16: Fp16) -> tuple[Measure, ...]:
        return (measure(0.009, width=0.0005 if fp16 else 0.002),)

    found = Search(record_of(EVEN), costs(EVEN), Limits(), trial)
    assert found.run([list(EVEN)], frozenset()) == {"a"}
    assert found.curve[0].measures[0].meets and not found.curve[0].measures[0].meets_surely


def test_every_criterion_must_be_met_and_one_without_a_limit_asks_nothing() -> None:
    def trial(fp16: Fp16) -> tuple[Measure, ...]:
        return (
            measure(0.5 if len(fp16) < 2 else 0.05, limit=0.1, of="perplexity"),
            measure(0.02 if "d" not in fp16 else 0.002),
            measure(99.0, limit=None, of="function"),
        )

    found = Search(record_of(EVEN), costs(EVEN), Limits(), trial)
    chosen = found.run([list(EVEN)], frozenset())
    assert len(chosen) == 2 and "d" in chosen


def test_the_criterion_that_is_worst_off_says_how_near_a_set_is() -> None:
    near = {0: (0.2, 0.011), 1: (0.11, 0.03), 2: (0.11, 0.012), 3: (0.15, 0.0)}

    def trial(fp16: Fp16) -> tuple[Measure, ...]:
        first, second = near.get(len(fp16), (9.0, 9.0))
        return measure(first, limit=0.1, of="perplexity"), measure(second)

    found = Search(record_of(EVEN), costs(EVEN), Limits(), trial)
    assert len(found.run([list(EVEN)], frozenset())) == 2  # 1.2 times; the others 2, 3 and 1.5


def test_aiming_higher_uses_a_share_of_what_is_allowed() -> None:
    damages = [0.02, 0.008, 0.006, 0.004, 0.004, 0.002, 0.0]
    assert len(search(by_count(damages), EVEN)[0]) == 1
    assert len(search(by_count(damages), EVEN, share=0.5)[0]) == 3
    oracle = Oracle(by_count(damages))
    found = Search(record_of(EVEN), costs(EVEN), Limits(), oracle)
    sizes = [len(found.run([list(EVEN)], frozenset(), share)) for share in (1.0, 0.7, 0.5, 0.1)]
    assert sizes == [1, 2, 3, 6]
    assert len(oracle.asked) == len(set(oracle.asked)), "a later round remembers what it saw"


def test_a_limit_of_no_damage_is_met_by_no_damage_alone() -> None:
    def trial(fp16: Fp16) -> tuple[Measure, ...]:
        return (measure(0.0 if len(fp16) == 6 else 1e-12, limit=0.0),)

    found = Search(record_of(EVEN), costs(EVEN), Limits(), trial)
    assert len(found.run([list(EVEN)], frozenset())) == 6


# --- limits and pins ----------------------------------------------------------------------------


def test_start_is_in_every_set_and_only_ordered_groups_are_added() -> None:
    chosen, _, oracle = search(
        lambda fp16: 0.001 if len(fp16) == 4 else 0.1,
        EVEN,
        list("bcde"),  # `f` is pinned to int8
        start=frozenset("a"),
    )
    assert all("a" in fp16 and "f" not in fp16 for fp16 in oracle.asked)
    assert chosen == frozenset("abcd")


def test_no_set_beyond_the_number_of_fp16_groups_is_tried() -> None:
    chosen, _, oracle = search(
        lambda fp16: 0.1 / (1 + len(fp16)), EVEN, limits=Limits(fp16_groups=3)
    )
    assert max(map(len, oracle.asked)) == 3 and len(chosen) == 3


def test_no_set_that_leaves_too_little_in_int8_is_tried() -> None:
    macs = {"a": 50, "b": 30, "c": 15, "d": 5}
    _, found, oracle = search(
        lambda _: 0.1, macs, list("abcd"), list("dcba"), limits=Limits(int8_mac_fraction=0.5)
    )
    assert set(map(frozenset, ("", "a", "d", "cd", "bcd"))) == set(oracle.asked)
    assert min(p.int8_mac_fraction for p in found.curve) == 0.5


def test_limits_count_all_layers_and_hold_at_their_ends() -> None:
    record = record_of({"a": 60, "b": 40})
    grouped = record.model_copy(update={"groups": record.groups[:1]})
    assert int8_share(grouped, frozenset()) == 0.6 and int8_share(grouped, frozenset("a")) == 0
    assert Limits(0.6).allow(record, frozenset("b")) and not Limits(0.61).allow(
        record, frozenset("b")
    )
    assert Limits(fp16_groups=1).allow(record, frozenset("b"))
    assert not Limits(fp16_groups=1).allow(record, frozenset("ab"))
    assert not Limits(fp16_groups=0).allow(record, frozenset("a"))
    nothing = ModelRecord(opset=18, inputs=(), outputs=(), layers=(), groups=(), padding=())
    assert int8_share(nothing, frozenset()) == 0


def test_where_what_must_be_in_fp16_is_beyond_the_limits_it_alone_is_measured() -> None:
    chosen, _, oracle = search(
        lambda _: 0.1, EVEN, list("cdef"), start=frozenset("ab"), limits=Limits(fp16_groups=1)
    )
    assert chosen == frozenset("ab") and oracle.asked == [frozenset("ab")]


# --- whatever accuracy does ---------------------------------------------------------------------


@settings(max_examples=150)
@given(
    st.lists(st.integers(1, 100), min_size=1, max_size=9),
    st.integers(0, 2**32 - 1),
    st.floats(0, 1),
    st.one_of(st.none(), st.integers(0, 9)),
    st.sampled_from([1.0, 0.7, 0.3]),
)
def test_the_plan_meets_the_budget_if_any_set_tried_does_and_stays_within_the_limits(
    sizes: list[int], seed: int, least: float, most: int | None, share: float
) -> None:
    macs = {f"g{i}": size for i, size in enumerate(sizes)}
    names, rng = list(macs), np.random.default_rng(seed)
    # Any function of the set at all, NaN among its values.
    table = rng.uniform(0, 4 * LIMIT, 2 ** len(names))
    table[rng.random(len(table)) < 0.1] = np.nan
    limits = Limits(least, most)

    def damage(fp16: Fp16) -> float:
        return float(table[sum(2 ** names.index(name) for name in fp16)])

    orders = [rng.permutation(names).tolist() for _ in range(3)]
    chosen, found, oracle = search(damage, macs, *orders, limits=limits, share=share)
    assert len(oracle.asked) == len(set(oracle.asked)), "every set is measured once"
    assert [frozenset(p.fp16_groups) for p in found.curve] == oracle.asked
    assert chosen in oracle.asked
    meeting = [fp16 for fp16 in oracle.asked if damage(fp16) <= LIMIT * share]
    if meeting:
        assert chosen in meeting
        assert not any(fp16 < chosen for fp16 in meeting), "nothing in fp16 is known to be idle"
    else:
        known = [damage(fp16) for fp16 in oracle.asked if not np.isnan(damage(fp16))]
        if known:
            assert damage(chosen) == min(known)
    total = sum(sizes)
    for point in found.curve:
        int8 = sum(macs[name] for name in names if name not in point.fp16_groups)
        assert point.int8_mac_fraction == pytest.approx(int8 / total)
        assert point.cost == pytest.approx((2 * total - int8) / (2 * total))
        assert int8 / total >= least and (most is None or len(point.fp16_groups) <= most)


@settings(max_examples=50)
@given(st.integers(0, 300))
def test_strides_go_from_the_first_to_the_last_and_widen_slowly(count: int) -> None:
    found = strides(count)
    assert found == sorted(set(found)) and found[:4] == list(range(min(count, 4)))
    if count:
        assert found[0] == 0 and found[-1] == count - 1
    steps = [b - a for a, b in pairwise(found)]
    assert all(step <= 1 + place / 3 for place, step in zip(found, steps, strict=False))
    assert len(found) < 25


def test_sets_grow_by_one_and_skip_what_is_there() -> None:
    assert list(growing(["a", "b", "c"], frozenset("b"))) == [
        frozenset("b"), frozenset("ab"), frozenset("abc"),
    ]  # fmt: skip
