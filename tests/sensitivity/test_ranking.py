"""The order of groups, and how far it is to be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.artifacts.model_record import Group
from quantflow.config import Role
from quantflow.sensitivity.ranking import Ranking, rank, survivors

from .builders import record_of


def groups_of(roles: Mapping[str, Role]) -> Sequence[Group]:
    return record_of(dict.fromkeys(roles, 10), roles).groups


def ranked(
    damages: Mapping[str, tuple[Role, Sequence[float]]], seed: int = 0
) -> tuple[list[str], Ranking]:
    groups = groups_of({name: role for name, (role, _) in damages.items()})
    found = rank(groups, np.array([x for _, x in damages.values()], np.float64), seed=seed)
    return [groups[index].name for index in found.order], found


def order_of(damages: Mapping[str, tuple[Role, Sequence[float]]]) -> list[str]:
    return ranked(damages)[0]


def unnamed(damage: np.ndarray, seed: int = 0) -> Ranking:
    """A ranking of groups whose roles say nothing."""
    return rank(record_of({f"g{i}": 1 for i in range(len(damage))}).groups, damage, seed=seed)


# --- the paired bootstrap -----------------------------------------------------------------------


def resampled(damage: np.ndarray, seed: int) -> np.ndarray:
    """Means of every row in 1000 resamples of the columns, one by one."""
    count = damage.shape[1]
    times = np.random.default_rng(seed).multinomial(count, [1 / count] * count, size=1000)
    return np.array([damage[:, np.repeat(np.arange(count), row)].mean(axis=1) for row in times])


@settings(max_examples=25)
@given(st.integers(2, 6), st.integers(2, 12), st.integers(0, 2**16))
def test_order_ties_places_and_stability_are_those_of_a_loop_over_resamples(
    count: int, samples: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    damage = rng.normal(size=(count, 1)) * 0.5 + rng.normal(size=(count, samples))
    found = unnamed(damage, seed)
    assert list(found.order) == sorted(range(count), key=lambda g: -damage[g].mean())
    means = resampled(damage, seed)
    for (a, b), tied in zip(pairwise(found.order), found.tied, strict=True):
        low, high = np.quantile(means[:, a] - means[:, b], [0.025, 0.975])
        assert tied == (low <= 0 <= high)
    places = np.array([[np.sum(row > row[g]) for g in range(count)] for row in means])
    for group in range(count):
        inside = np.sort(places[:, group])
        # The 25th smallest and largest of 1000: at most 2.5% lie beyond either.
        assert found.places[group].tolist() == [inside[24], inside[974]]
    of_all = np.argsort(np.argsort(-damage.mean(axis=1)))
    assert found.stability == pytest.approx(
        np.mean([np.corrcoef(row, of_all)[0, 1] for row in places]), abs=1e-9
    )


def test_differences_are_those_of_pairs_not_of_samples() -> None:
    # The samples differ by far more than the groups do, but every sample says the same of them.
    hard = np.random.default_rng(0).exponential(size=16) * 100
    found = unnamed(np.stack([hard, hard + 0.1, hard + 0.2]))
    assert found.order == (2, 1, 0) and found.tied == (False, False)
    assert found.places.tolist() == [[2, 2], [1, 1], [0, 0]] and found.stability == 1


def test_stability_is_one_for_a_clear_order_and_low_for_noise() -> None:
    rng = np.random.default_rng(1)
    clear = np.arange(8)[:, None] + 0.1 * rng.normal(size=(8, 20))
    noise = rng.normal(size=(8, 20))
    assert unnamed(clear).stability == 1
    assert unnamed(noise).stability < 0.8
    assert not any(unnamed(clear).tied) and all(unnamed(noise).tied)
    assert np.ptp(unnamed(noise).places, axis=1).min() >= 3
    assert np.ptp(unnamed(clear).places, axis=1).max() == 0


def test_one_group_alone_has_its_place_and_no_stability() -> None:
    found = unnamed(np.ones((1, 4)))
    assert found.order == (0,) and found.tied == () and found.places.tolist() == [[0, 0]]
    assert np.isnan(found.stability)


@settings(max_examples=40)
@given(st.permutations(range(5)))
def test_the_order_is_that_of_damage_however_groups_are_listed(listed: list[int]) -> None:
    damages = {f"g{i}": ("ffn", [0.1 * (i + 1)] * 3) for i in listed}
    assert order_of(damages) == ["g4", "g3", "g2", "g1", "g0"]  # pyright: ignore


# --- attention first, but only where it may be chance -------------------------------------------


def test_attention_goes_first_among_groups_that_are_tied() -> None:
    same = np.array([0.10, 0.08, 0.06, 0.04])
    names, found = ranked({
        "ffn": ("ffn", np.add(same, [0.002, -0.001, 0.002, -0.001])),
        "qkv": ("qkv", same),
        "head": ("classifier", np.add(same, [0.003, -0.001, 0.002, -0.001])),
        "out": ("attention_output", np.add(same, [-0.002, 0.001, -0.002, 0.001])),
    })  # fmt: skip
    assert names == ["qkv", "out", "head", "ffn"]
    assert found.tied == (True, True, True)


def test_attention_does_not_go_first_where_the_measurement_decides() -> None:
    names, found = ranked({
        "qkv": ("qkv", [0.010, 0.009, 0.008]),
        "ffn": ("ffn", [0.10, 0.09, 0.08]),
        "out": ("attention_output", [0.0010, 0.0009, 0.0008]),
        "head": ("classifier", [0.0050, 0.0049, 0.0048]),
    })  # fmt: skip
    assert names == ["ffn", "qkv", "head", "out"]
    assert found.tied == (False, False, False)


def test_attention_passes_no_group_that_is_clearly_worse() -> None:
    wide = np.array([0.0, 0.3, 0.0, 0.3, 0.0, 0.3])
    names = order_of({
        "wide": ("ffn", wide + 0.1),
        "steady": ("ffn", np.full(6, 0.2)),
        "qkv": ("qkv", wide + 0.02),
        "low": ("qkv", np.full(6, 0.1)),
    })  # fmt: skip
    # `qkv` is tied with `steady`, not with `wide`, which is 0.08 worse on every sample.
    assert names == ["wide", "qkv", "steady", "low"]


def test_equal_groups_keep_their_order_in_the_graph() -> None:
    names, found = ranked({name: ("ffn", [0.5, 0.25]) for name in "bca"})
    assert names == ["b", "c", "a"] and found.tied == (True, True)


# --- broken outputs -----------------------------------------------------------------------------


def test_a_group_that_breaks_one_output_comes_first_ahead_of_attention() -> None:
    # A third of the resamples of `broken` miss what it broke, and are those of `qkv`.
    names, found = ranked({
        "mild": ("ffn", [0.1, 0.0, 0.1, 0.0]),
        "qkv": ("qkv", [0.0, 0.1, 0.1, 0.1]),
        "broken": ("ffn", [0.0, 0.1, np.inf, 0.1]),
    })  # fmt: skip
    assert names[0] == "broken" and not found.tied[0]
    assert names[1] == "qkv"
    assert found.places[2].tolist() == [0, 0]


def test_of_two_that_break_outputs_the_one_that_breaks_more_comes_first() -> None:
    names, found = ranked({
        "worst of the sound": ("qkv", [1e9] * 8),
        "breaks one": ("ffn", [0.0] * 7 + [np.inf]),
        "breaks seven": ("ffn", [np.inf] * 7 + [0.0]),
    })  # fmt: skip
    assert names == ["breaks seven", "breaks one", "worst of the sound"]
    assert found.tied == (False, False)


def test_a_small_gain_is_no_worse_than_nothing() -> None:
    # Perplexity may fall: a negative damage is a number like any other.
    assert order_of({
        "gain": ("ffn", [-0.5, -0.4]), "none": ("ffn", [0.0, 0.0]), "harm": ("ffn", [0.1, 0.2]),
    }) == ["harm", "none", "gain"]  # fmt: skip


# --- fewer samples ------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.integers(2, 7), st.integers(2, 12), st.integers(0, 2**16))
def test_where_samples_are_hard_for_all_alike_fewer_of_them_change_nothing(
    count: int, samples: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.permutation(np.arange(1.0, count + 1))
    damage = sizes[:, None] * rng.lognormal(sigma=2, size=samples)
    partial = damage.copy()
    for group in range(1, count):
        partial[group, rng.integers(1, samples + 1) :] = np.nan
    expected = sorted(range(count), key=lambda group: -sizes[group])
    assert list(unnamed(damage).order) == expected
    assert list(unnamed(partial).order) == expected


def test_samples_that_nobody_was_measured_on_count_for_nothing() -> None:
    damage = np.array([[1.0, np.nan, 3.0, 2.0], [2.0, np.nan, 3.5, 4.0], [9.0, np.nan, 1.0, 0.0]])
    found = unnamed(damage)
    assert found.order == (2, 1, 0)
    assert np.isfinite(found.means).all()


def test_groups_that_do_no_harm_are_compared_as_they_are() -> None:
    damage = np.array([[0.0, 0.0, 0.0], [-1.0, np.nan, np.nan], [-0.5, np.nan, np.nan]])
    assert unnamed(damage).order == (0, 2, 1)


# --- who goes on --------------------------------------------------------------------------------


def test_the_first_ones_go_on_and_nobody_who_is_tied_with_the_last_of_them_is_dropped() -> None:
    noise = np.random.default_rng(0).normal(size=12)
    steps = np.array([9.0, 5.0, 5.0, 5.0, 1.0, 0.0])[:, None]
    damage = steps + np.stack([np.roll(noise, 2 * i) for i in range(6)])
    assert survivors(unnamed(damage), 1) == [0]
    for keep in (2, 3):
        assert survivors(unnamed(damage), keep) == [0, 1, 2, 3]
    assert survivors(unnamed(damage), 5) == [0, 1, 2, 3, 4]
    assert survivors(unnamed(damage), 6) == list(range(6))


def test_a_group_behind_one_that_is_clearly_dropped_goes_on_where_it_is_tied() -> None:
    # `erratic` has the least mean of the three, and more than anyone on two samples of eight.
    first, steady = np.full(8, 1.0), np.full(8, 0.9)
    erratic = np.array([3.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    found = unnamed(np.stack([first, steady, erratic]))
    assert found.order == (0, 1, 2) and not found.tied[0]
    assert survivors(found, 1) == [0, 2]


@settings(max_examples=60)
@given(st.integers(1, 8), st.integers(2, 10), st.data())
def test_nobody_who_may_be_among_the_first_is_dropped(
    count: int, samples: int, data: st.DataObject
) -> None:
    keep = data.draw(st.integers(1, count))
    seed = data.draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    spread = rng.exponential(size=(count, 1)) * rng.integers(0, 2, (count, samples))
    damage = rng.normal(size=(count, 1)) + spread
    found = unnamed(damage, seed)
    left = survivors(found, keep)
    assert left == sorted(set(left)) and len(left) >= keep
    means = resampled(damage, seed)
    last = found.order[keep - 1]
    for group in set(range(count)) - set(left):
        # Worse than the last one kept in fewer than 2.5% of the resamples.
        assert np.mean(means[:, group] >= means[:, last]) <= 0.025
