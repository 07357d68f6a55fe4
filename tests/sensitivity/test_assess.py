"""Scores of all groups: what they say, and which groups see how many samples."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.artifacts.sweep_record import GroupScore
from quantflow.config import Role
from quantflow.sensitivity.assess import Assessed

from .builders import assessment, brute_force, cosine, names, outputs_of
from .fakes import FakeModel, Harm, fake_assessment
from .graphs import encoder_bench

EIGHT: dict[str, Role] = {f"g{i}": "ffn" for i in range(8)}


def additive(table: np.ndarray) -> Harm:
    """Groups ``g0``, ``g1``, ... hurt each by a row of a ``(G, S)`` table, and add up."""

    def harm(int8: frozenset[str], side: str | None, sample: int) -> float:
        part = {None: 1.0, "weights": 0.25, "activations": 0.5}[side]
        return part * sum(table[int(name[1:]), sample] for name in sorted(int8))

    return harm


def clear_table(samples: int, groups: int = 8, seed: int = 0) -> np.ndarray:
    """Damages 8, 7, ... 1 with little noise."""
    noise = np.random.default_rng(seed).uniform(-0.2, 0.2, (groups, samples))
    return np.arange(groups, 0, -1)[:, None] + noise


def by_group(found: Assessed) -> dict[str, GroupScore]:
    return {score.group: score for score in found.scores}


def samples_seen(found: Assessed) -> list[int]:
    return [by_group(found)[f"g{i}"].samples for i in range(len(found.scores))]


# --- halving ------------------------------------------------------------------------------------


def test_a_quarter_of_the_samples_for_all_half_of_them_for_half_and_all_for_a_quarter() -> None:
    task = fake_assessment(additive(clear_table(16)), EIGHT, 16)
    found = task.run()
    assert [score.group for score in found.scores] == list(EIGHT)
    assert samples_seen(found) == [16, 16, 8, 8, 4, 4, 4, 4]
    model = task.model
    assert isinstance(model, FakeModel)
    asked = Counter(model.asked)
    for i, seen in enumerate(samples_seen(found)):
        assert asked[frozenset({f"g{i}"}), None] == seen
        assert asked[frozenset(EIGHT) - {f"g{i}"}, None] == seen
    assert asked[frozenset(EIGHT), None] == asked[frozenset(), None] == 16


def test_without_halving_all_groups_see_all_samples() -> None:
    found = fake_assessment(additive(clear_table(16)), EIGHT, 16, halving=False).run()
    assert samples_seen(found) == [16] * 8


@pytest.mark.parametrize(
    ("samples", "batch", "seen"),
    [
        (2, 1, [2] * 8),  # too few to drop anybody on
        (3, 1, [3, 3, 3, 3, 2, 2, 2, 2]),  # a quarter is too few; half of them, rounded up
        (4, 1, [4, 4, 4, 4, 2, 2, 2, 2]),
        (8, 1, [8, 8, 4, 4, 2, 2, 2, 2]),
        (15, 2, [15, 15, 8, 8, 4, 4, 4, 4]),  # whole batches
        (12, 8, [12, 12, 12, 12, 8, 8, 8, 8]),
        (8, 8, [8] * 8),  # one batch
        (17, 3, [17, 17, 9, 9, 6, 6, 6, 6]),
    ],
)
def test_samples_are_spent_in_whole_batches_and_nobody_is_dropped_on_few(
    samples: int, batch: int, seen: list[int]
) -> None:
    found = fake_assessment(additive(clear_table(samples)), EIGHT, samples, batch=batch).run()
    assert samples_seen(found) == seen


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_worst_of_few_groups_sees_all_samples(count: int) -> None:
    roles: dict[str, Role] = {f"g{i}": "ffn" for i in range(count)}
    found = fake_assessment(additive(clear_table(16, count)), roles, 16).run()
    assert found.scores[0].group == "g0" and found.scores[0].samples == 16


def test_scores_of_those_that_go_on_are_those_without_halving() -> None:
    table = clear_table(16, seed=3)
    halved = by_group(fake_assessment(additive(table), EIGHT, 16).run())
    whole = by_group(fake_assessment(additive(table), EIGHT, 16, halving=False).run())
    for name in ("g0", "g1"):
        assert halved[name].samples == 16
        assert halved[name].one_in == whole[name].one_in
        assert halved[name].one_out == whole[name].one_out
    for i, name in enumerate(EIGHT):
        seen = halved[name].samples
        assert halved[name].one_in.damage == pytest.approx(table[i, :seen].mean())


def test_groups_that_are_tied_all_go_on() -> None:
    # The first quarter says nothing; it is the last samples that tell g7 from the others.
    table = np.random.default_rng(0).normal(size=16) + np.zeros((8, 16))
    table[7, 12:] += 5
    found = fake_assessment(additive(table), EIGHT, 16).run()
    assert samples_seen(found) == [16] * 8
    assert found.scores[0].group == "g7"


def test_a_group_that_rarely_hurts_goes_on_behind_others_that_are_dropped() -> None:
    # On the first four samples g7 hurts on one alone, much: its mean is the least of all.
    table = clear_table(16)
    table[7, :4] = [0, 4 * 0.9, 0, 0]
    table[7, 4:] = 30
    found = fake_assessment(additive(table), EIGHT, 16).run()
    seen = samples_seen(found)
    assert seen[7] == 4  # 0.9 or 3.6 at most in any two of four: never near the fourth's 5
    table[7, 1] = 40
    found = fake_assessment(additive(table), EIGHT, 16).run()
    assert samples_seen(found)[7] == 16 and found.scores[0].group == "g7"


def test_whoever_was_dropped_stays_behind_when_later_samples_are_easier() -> None:
    # The first samples are ten times as hard as the others, for all groups alike.
    hard = np.array([10.0] * 4 + [1.0] * 12)
    found = fake_assessment(additive(clear_table(16) * hard), EIGHT, 16).run()
    assert samples_seen(found) == [16, 16, 8, 8, 4, 4, 4, 4]
    # Nor does it pass others for having seen the hard samples alone.
    assert [score.group for score in found.scores] == list(EIGHT)
    assert found.scores[4].one_in.damage > found.scores[0].one_in.damage


@settings(max_examples=25)
@given(st.integers(1, 9), st.integers(2, 24), st.integers(1, 5), st.integers(0, 2**16))
def test_every_group_is_measured_on_the_first_samples_without_a_gap(
    groups: int, samples: int, batch: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    table = rng.exponential(size=(groups, samples)) * rng.exponential(size=(groups, 1))
    roles: dict[str, Role] = {f"g{i}": "ffn" for i in range(groups)}
    found = fake_assessment(additive(table), roles, samples, batch=batch).run()
    assert {score.group for score in found.scores} == set(roles)
    assert max(score.samples for score in found.scores) == samples
    for score in found.scores:
        rows = table[int(score.group[1:]), : score.samples]
        assert score.one_in.damage == pytest.approx(rows.mean())
        assert score.one_out.damage == pytest.approx(rows.mean())
        assert 1 <= score.rank_low <= score.rank_high <= groups


# --- what a score says --------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("of_float", [0.0, 1.0, None])
def test_one_in_is_against_float_and_one_out_against_everything(
    sign: int, of_float: float | None
) -> None:
    table = clear_table(6, 3)
    shared = np.arange(6) / 10

    def harm(int8: frozenset[str], side: str | None, sample: int) -> float:
        # g0 and g1 hurt more together than apart: by 2 on every sample.
        together = 2.0 if {"g0", "g1"} <= int8 else 0.0
        return additive(table)(int8, side, sample) + together + shared[sample]

    roles: dict[str, Role] = {"g0": "ffn", "g1": "qkv", "g2": "other"}
    task = fake_assessment(harm, roles, 6, sign=sign, of_float=of_float, halving=False)
    found = by_group(task.run())
    start = np.arange(6) if of_float is None else np.full(6, of_float)
    for i, name in enumerate(roles):
        score = found[name]
        assert score.role == roles[name] and score.mac_fraction == pytest.approx(1 / 3)
        alone = table[i] + shared
        assert score.one_in.damage == pytest.approx(alone.mean())
        assert score.one_in.value == pytest.approx((start + sign * alone).mean())
        among = table[i] + (2 if i < 2 else 0)
        assert score.one_out.damage == pytest.approx(among.mean())
        everything = table.sum(axis=0) + 2 + shared
        assert score.one_out.value == pytest.approx((start + sign * (everything - among)).mean())
        for effect, values in ((score.one_in, alone), (score.one_out, among)):
            low, high = interval(values)
            assert (effect.low, effect.high) == pytest.approx((low, high))


def interval(values: np.ndarray) -> tuple[float, float]:
    """Of the mean, from resamples one by one."""
    count = len(values)
    times = np.random.default_rng(0).multinomial(count, [1 / count] * count, size=1000)
    means = [values[np.repeat(np.arange(count), row)].mean() for row in times]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def test_both_sides_are_measured_of_the_eight_that_hurt_most_on_the_first_samples() -> None:
    table = clear_table(16, 10)
    roles: dict[str, Role] = {f"g{i}": "ffn" for i in range(10)}
    found = by_group(fake_assessment(additive(table), roles, 16).run())
    for i, name in enumerate(roles):
        if i < 8:
            assert found[name].weights == pytest.approx(0.25 * table[i, :4].mean())
            assert found[name].activations == pytest.approx(0.5 * table[i, :4].mean())
        else:
            assert found[name].weights is None and found[name].activations is None


def test_how_far_the_order_is_to_be_trusted_is_said() -> None:
    clear = fake_assessment(additive(clear_table(12)), EIGHT, 12, halving=False).run()
    assert clear.stability == 1 and clear.in_out_correlation == 1
    assert [(x.rank_low, x.rank_high, x.tied) for x in clear.scores] == [
        (place, place, False) for place in range(1, 9)
    ]
    noise = np.random.default_rng(0).normal(size=(8, 12))
    found = fake_assessment(additive(noise), EIGHT, 12, halving=False).run()
    assert found.stability is not None and found.stability < 0.8
    assert sum(score.tied for score in found.scores) >= 4 and not found.scores[-1].tied


def test_that_the_two_ways_disagree_is_said() -> None:
    table = clear_table(6)

    def harm(int8: frozenset[str], side: str | None, sample: int) -> float:
        # Among the others, those that hurt least alone hurt most.
        return float(
            table[int(min(int8)[1:]), sample] if len(int8) == 1
            else -sum(table[int(name[1:]), sample] for name in int8)
        )  # fmt: skip

    found = fake_assessment(harm, EIGHT, 6).run()
    assert found.in_out_correlation == pytest.approx(-1)


def test_one_group_has_neither_stability_nor_correlation() -> None:
    found = fake_assessment(additive(clear_table(6, 1)), {"g0": "ffn"}, 6).run()
    assert found.stability is None and found.in_out_correlation is None
    assert (found.scores[0].rank_low, found.scores[0].rank_high) == (1, 1)


# --- broken outputs -----------------------------------------------------------------------------


def broken_by(test: Callable[[frozenset[str], int], bool]) -> Harm:
    table = clear_table(6, 3)

    def harm(int8: frozenset[str], side: str | None, sample: int) -> float:
        return np.nan if test(int8, sample) else additive(table)(int8, side, sample)

    return harm


def without_a_warning(harm: Harm, sign: int = 1) -> dict[str, GroupScore]:
    roles: dict[str, Role] = {"g0": "qkv", "g1": "ffn", "g2": "ffn"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = fake_assessment(harm, roles, 6, sign=sign, halving=False).run()
    assert found.in_out_correlation is None
    assert found.scores[0].group == "g2"
    return by_group(found)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_group_that_breaks_one_sample_is_first_and_its_damage_is_no_number(sign: int) -> None:
    found = without_a_warning(broken_by(lambda int8, sample: "g2" in int8 and sample == 4), sign)
    assert np.isnan([found["g2"].one_in.damage, found["g2"].one_in.low]).all()
    assert found["g2"].one_in.value == sign * np.inf
    assert (found["g2"].rank_low, found["g2"].rank_high, found["g2"].tied) == (1, 1, False)
    # It breaks everything, too, and leaving it out mends that.
    assert np.isnan(found["g2"].one_out.damage)
    assert np.isfinite([found["g0"].one_in.damage, found["g1"].one_in.high]).all()
    # Of the others, samples that stay broken without them tell nothing.
    rest = [i for i in range(6) if i != 4]
    assert found["g0"].one_out.damage == pytest.approx(clear_table(6, 3)[0, rest].mean())


def test_a_group_that_breaks_all_samples_is_first_and_nothing_is_known_of_the_others_among_it(
) -> None:  # fmt: skip
    found = without_a_warning(broken_by(lambda int8, sample: "g2" in int8))
    for name in ("g0", "g1"):
        assert np.isfinite(found[name].one_in.damage)
        assert np.isnan(found[name].one_out.damage)


def test_what_breaks_only_without_a_group_gives_that_group_no_number() -> None:
    # All but g0 in INT8 breaks every sample, everything in INT8 does not; g2 alone does.
    harm = broken_by(lambda int8, sample: int8 in (frozenset({"g1", "g2"}), frozenset({"g2"})))
    assert np.isnan(without_a_warning(harm)["g0"].one_out.damage)


# --- a real model -------------------------------------------------------------------------------


def test_scores_of_a_network_are_those_of_fresh_graphs() -> None:
    b = encoder_bench()
    found = assessment(b).run()
    exact = outputs_of(b, b.static)

    def cosines(int8: Sequence[str]) -> np.ndarray:
        pairs = zip(exact, brute_force(b, int8), strict=True)
        return np.array([cosine(e["y"], o["y"]) for e, o in pairs])

    everything = cosines(names(b))
    for score in found.scores[::3]:
        alone = cosines([score.group])
        others = cosines([name for name in names(b) if name != score.group])
        assert score.samples == 7
        assert score.one_in.value == pytest.approx(alone.mean(), abs=1e-6)
        assert score.one_in.damage == pytest.approx((1 - alone).mean(), abs=1e-6)
        assert score.one_out.value == pytest.approx(others.mean(), abs=1e-6)
        assert score.one_out.damage == pytest.approx((others - everything).mean(), abs=1e-6)
        assert score.one_in.low <= score.one_in.damage <= score.one_in.high
    damages = [score.one_in.damage for score in found.scores]
    untied = [d for d, score in zip(damages, found.scores, strict=True) if not score.tied]
    assert untied == sorted(untied, reverse=True)


def test_progress_says_which_groups_and_samples_and_ends_in_full() -> None:
    told = list[tuple[str, int, int]]()

    def progress(what: str, done: int, total: int) -> None:
        told.append((what, done, total))

    fake_assessment(additive(clear_table(16)), EIGHT, 16, progress=progress).run()
    labels = list(dict.fromkeys(what for what, _, _ in told))
    assert labels == [
        "each alone in INT8: 8 groups, samples 1 to 4",
        "all but each: 8 groups, samples 1 to 4",
        "each alone in INT8: 4 groups, samples 5 to 8",
        "all but each: 4 groups, samples 5 to 8",
        "each alone in INT8: 2 groups, samples 9 to 16",
        "all but each: 2 groups, samples 9 to 16",
        "only weights of 8 groups",
        "only activations of 8 groups",
    ]
    for label in labels:
        counts = [(done, total) for what, done, total in told if what == label]
        total = counts[0][1]
        assert counts == [(i, total) for i in range(total + 1)]
