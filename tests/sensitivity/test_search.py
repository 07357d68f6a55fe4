"""The search: whatever accuracy does, every set is measured as a whole, and once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.artifacts.model_record import Group, Layer, ModelRecord
from quantflow.sensitivity.search import Search, growing, int8_share, meets

BUDGET = 0.99


def record_of(macs: dict[str, int]) -> ModelRecord:
    layers = tuple(
        Layer(
            name=name, node=name, op_type="MatMul", role="other", group=name, input=f"{name}_in",
            weight=f"{name}_w", bias=None, bias_node=None, output=name, macs=size,
        )
        for name, size in macs.items()
    )  # fmt: skip
    groups = tuple(
        Group(name=x.name, tensor=x.input, role="other", layers=(x.name,), macs=x.macs)
        for x in layers
    )
    return ModelRecord(opset=18, inputs=(), outputs=(), layers=layers, groups=groups, padding=())


class Oracle:
    """Accuracy as a function of the fp16 groups; remembers what it was asked."""

    def __init__(self, accuracy: Callable[[frozenset[str]], float]) -> None:
        self.accuracy = accuracy
        self.asked: list[frozenset[str]] = []

    def __call__(self, fp16: frozenset[str]) -> np.ndarray:
        self.asked.append(fp16)
        return np.full(8, self.accuracy(fp16))


def search(
    accuracy: Callable[[frozenset[str]], float],
    macs: dict[str, int],
    ranking: Sequence[str] | None = None,
    fixed: frozenset[str] = frozenset(),
) -> tuple[frozenset[str], Search, Oracle]:
    oracle = Oracle(accuracy)
    found = Search(record_of(macs), oracle, seed=0)
    chosen = found.run(ranking if ranking is not None else list(macs), fixed, BUDGET)
    return chosen, found, oracle


EVEN = dict.fromkeys("abcdef", 10)


def test_nothing_goes_to_fp16_when_int8_meets_the_budget() -> None:
    chosen, found, oracle = search(lambda _: 0.995, EVEN)
    assert chosen == frozenset()
    assert oracle.asked == [frozenset()]
    (point,) = found.curve
    assert point.int8_mac_fraction == 1 and point.fp16_groups == ()


def test_the_search_does_not_assume_that_accuracy_grows() -> None:
    # One group in fp16 is worse than none, three are worse than two; five are enough (C38).
    by_count = [0.97, 0.90, 0.98, 0.60, 0.95, 0.993, 0.991]
    chosen, _, oracle = search(lambda fp16: by_count[len(fp16)], EVEN)
    assert by_count[len(chosen)] >= BUDGET
    assert [len(fp16) for fp16 in oracle.asked[:6]] == [0, 1, 2, 3, 4, 5]


def test_a_set_that_meets_the_budget_is_kept_where_a_larger_one_does_not() -> None:
    by_count = [0.5, 0.6, 0.995, 0.7, 0.7, 0.7, 0.7]
    chosen, _, _ = search(lambda fp16: by_count[len(fp16)], EVEN)
    assert len(chosen) == 2


def test_groups_that_are_not_needed_go_back_to_int8_the_most_expensive_first() -> None:
    # Only `d` matters, but scores put it last; `b` costs most.
    macs = {"a": 20, "b": 50, "c": 10, "d": 5}
    chosen, found, oracle = search(lambda fp16: 0.999 if "d" in fp16 else 0.9, macs)
    assert chosen == {"d"}
    backward = [p.fp16_groups for p in found.curve if p.step == "backward"]
    assert backward[0] == ("a", "c", "d") and backward[1] == ("c", "d")
    assert int8_share(record_of(macs), chosen) == 80 / 85
    assert len(oracle.asked) == len(set(oracle.asked))


def test_a_pair_that_is_only_needed_together_is_kept_together() -> None:
    chosen, _, _ = search(lambda fp16: 0.995 if {"a", "c"} <= fp16 else 0.9, EVEN)
    assert chosen == {"a", "c"}


def test_of_two_groups_that_only_hurt_together_one_goes_to_fp16() -> None:
    chosen, _, _ = search(lambda fp16: 0.995 if {"e", "f"} & fp16 else 0.2, EVEN)
    assert chosen == {"e"}


def test_without_a_set_that_meets_the_budget_the_best_one_tried_is_returned() -> None:
    by_count = [0.5, 0.6, 0.985, 0.7, 0.98, 0.7, 0.7]
    chosen, found, _ = search(lambda fp16: by_count[len(fp16)], EVEN)
    assert len(chosen) == 2
    assert not any(meets(point, BUDGET) for point in found.curve)


@pytest.mark.parametrize("count", [0, 1, 3, 6])
def test_nan_neither_meets_the_budget_nor_is_it_the_best(count: int) -> None:
    def accuracy(fp16: frozenset[str]) -> float:
        return float("nan") if len(fp16) == count else 0.9 + 0.01 * len(fp16)

    chosen, found, _ = search(accuracy, EVEN)
    assert len(chosen) == (5 if count == 6 else 6)
    broken = next(p for p in found.curve if len(p.fp16_groups) == count)
    assert np.isnan(broken.cosine_low) and not meets(broken, BUDGET)


def test_one_sample_that_is_nan_is_not_left_out() -> None:
    def cosines(fp16: frozenset[str]) -> np.ndarray:
        return np.array([1.0] * 7 + [1.0 if fp16 else np.nan])

    found = Search(record_of(EVEN), cosines, seed=0)
    assert found.run(list(EVEN), frozenset(), BUDGET) == {"a"}


def test_the_lower_end_of_the_interval_decides() -> None:
    # The mean meets the budget, but six samples cannot say so with confidence.
    def cosines(fp16: frozenset[str]) -> np.ndarray:
        return np.array([0.999, 0.999, 0.999, 0.999, 0.999, 0.95 if not fp16 else 0.998])

    found = Search(record_of(EVEN), cosines, seed=0)
    assert found.run(list(EVEN), frozenset(), BUDGET) == {"a"}
    assert found.curve[0].cosine_mean > BUDGET > found.curve[0].cosine_low


def test_fixed_groups_are_in_every_set_and_only_ranked_ones_are_added() -> None:
    chosen, _, oracle = search(
        lambda fp16: 0.999 if len(fp16) == 4 else 0.9,
        EVEN,
        ranking=list("bcde"),  # `f` is pinned to int8
        fixed=frozenset("a"),
    )
    assert all("a" in fp16 and "f" not in fp16 for fp16 in oracle.asked)
    assert chosen == frozenset("abcd")


def test_extending_shows_what_more_fp16_would_bring_up_to_all_of_it() -> None:
    chosen, found, oracle = search(lambda fp16: 0.995 if "a" in fp16 else 0.9, EVEN)
    found.extend(list(EVEN), chosen)
    beyond = [len(p.fp16_groups) for p in found.curve if p.step == "beyond"]
    assert beyond == [2, 3, 5, 6]  # 1, 2, 4 and all 5 more
    assert len(oracle.asked) == len(set(oracle.asked)) == len(found.curve)
    before = len(oracle.asked)
    found.extend(list(EVEN), frozenset(EVEN))
    assert len(oracle.asked) == before


def test_sets_grow_by_one_and_skip_what_is_there() -> None:
    assert list(growing(["a", "b", "c"], frozenset("b"))) == [
        frozenset("b"), frozenset("ab"), frozenset("abc"),
    ]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 100), min_size=1, max_size=6),
    st.integers(0, 2**32 - 1),
    st.randoms(use_true_random=False),
)
def test_the_plan_meets_the_budget_if_any_set_tried_does(
    sizes: list[int], seed: int, random: object
) -> None:
    macs = {f"g{i}": size for i, size in enumerate(sizes)}
    table = np.random.default_rng(seed).uniform(0.95, 1.0, 2 ** len(sizes))
    names = list(macs)

    def accuracy(fp16: frozenset[str]) -> float:  # any function of the set at all
        return float(table[sum(2 ** names.index(name) for name in fp16)])

    chosen, found, oracle = search(accuracy, macs)
    assert len(oracle.asked) == len(set(oracle.asked)), "every set is measured once"
    assert chosen in oracle.asked
    best = max(accuracy(fp16) for fp16 in oracle.asked)
    if best >= BUDGET:
        assert accuracy(chosen) >= BUDGET
        meeting = [fp16 for fp16 in oracle.asked if accuracy(fp16) >= BUDGET]
        assert not any(fp16 < chosen for fp16 in meeting)
    else:
        assert accuracy(chosen) == best
    assert [frozenset(p.fp16_groups) for p in found.curve] == oracle.asked
    for point in found.curve:
        share = sum(macs[name] for name in names if name not in point.fp16_groups) / sum(sizes)
        assert point.int8_mac_fraction == pytest.approx(share)
