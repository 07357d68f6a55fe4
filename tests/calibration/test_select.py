"""Selection moves a set towards deployment, keeps its tail, and depends on content alone."""

from __future__ import annotations

import numpy as np
import pytest

from quantflow.calibration.drift.report import drift_report
from quantflow.calibration.features.table import FeatureTable
from quantflow.calibration.gate import choose
from quantflow.calibration.profile.kernel import TAIL_FRACTION
from quantflow.calibration.select import MOST, herd, select_matching

from .drift_tables import normal, profile, table


def _mixture(rng: np.random.Generator, alike: int, unlike: int) -> FeatureTable:
    """Candidates like deployment (the first `alike`), and others three deviations away."""
    values = rng.standard_normal((alike + unlike, 6))
    values[alike:] += 3
    return table(values, "candidates")


def select(pool: FeatureTable, deployment: FeatureTable, count: int) -> list[int]:
    """Candidates that match a deployment sample."""
    return select_matching(pool, profile(deployment).joint, count)


def test_candidates_unlike_deployment_are_left_out() -> None:
    rng = np.random.default_rng(0)
    rows = select(_mixture(rng, 150, 150), normal(rng, 200, name="d"), 64)
    assert len(set(rows)) == 64
    assert max(rows) < 150


def test_a_matched_set_passes_where_a_random_draw_fails() -> None:
    rng = np.random.default_rng(1)
    pool = _mixture(rng, 150, 150)
    pool = pool.take(rng.permutation(300))
    choice = choose(pool, profile(normal(rng, 200, name="d")), 64, selection="match", seed=0)
    assert choice.report.verdict == "pass"
    assert choice.report.selection == "match"
    assert choice.report.before is not None
    assert choice.report.before.verdict == "fail"
    # And so do deployment samples that it was not matched to.
    unseen = drift_report(pool.take(choice.rows), profile(normal(rng, 200, name="e")), seed=0)
    assert unseen.verdict == "pass"


def test_a_random_draw_is_the_first_candidates() -> None:
    rng = np.random.default_rng(2)
    deployment = normal(rng, 50, name="d")
    choice = choose(normal(rng, 40, name="c"), profile(deployment), 30, selection="random", seed=0)
    assert choice.rows == list(range(30))
    assert choice.report.before is None


def test_a_matched_set_is_closer_in_mean_and_spread_than_random_ones() -> None:
    rng = np.random.default_rng(3)
    pool = table(rng.standard_normal((400, 6)) * 1.5 + 0.5, "c")
    deployment = normal(rng, 200, name="d").values

    def distance(rows: list[int]) -> float:
        values = pool.values[rows]
        mean = np.square(values.mean(axis=0) - deployment.mean(axis=0)).sum()
        spread = np.square(values.std(axis=0) - deployment.std(axis=0)).sum()
        return float(mean + spread)

    matched = distance(select(pool, table(deployment, "d"), 64))
    drawn = [distance([int(i) for i in rng.permutation(400)[:64]]) for _ in range(50)]
    assert matched < min(drawn) / 2


def test_the_tail_of_deployment_has_its_share() -> None:
    rng = np.random.default_rng(4)
    pool, deployment = normal(rng, 600, name="c"), normal(rng, 300, name="d")

    def radius(x: FeatureTable) -> np.ndarray:
        centre, spread = deployment.values.mean(axis=0), deployment.values.std(axis=0)
        return np.linalg.norm((x.values - centre) / spread, axis=1)

    edge = np.quantile(radius(deployment), 1 - TAIL_FRACTION)
    chosen = pool.take(select(pool, deployment, 50))
    assert (radius(chosen) > edge).sum() == pytest.approx(5, abs=1)


def test_the_choice_does_not_depend_on_the_order_of_the_pool() -> None:
    rng = np.random.default_rng(5)
    pool, deployment = _mixture(rng, 100, 50), normal(rng, 80, name="d")
    order = rng.permutation(150)
    again = pool.take(order).take(select(pool.take(order), deployment, 30))
    assert again.ids == pool.take(select(pool, deployment, 30)).ids


def test_a_content_is_taken_twice_only_when_there_is_no_other() -> None:
    rng = np.random.default_rng(6)
    values = np.repeat(rng.standard_normal((20, 6)), 5, axis=0)
    digests = tuple(f"{i // 5:02d}" for i in range(100))
    pool = table(values, "c", digests=digests)
    deployment = normal(rng, 50, name="d")
    assert len({digests[i] for i in select(pool, deployment, 15)}) == 15
    rows = select(pool, deployment, 60)
    assert len(set(rows)) == 60
    assert len({digests[i] for i in rows}) == 20


def test_a_pool_without_anything_alike_still_gives_a_set_and_fails() -> None:
    rng = np.random.default_rng(7)
    choice = choose(
        _mixture(rng, 0, 100), profile(normal(rng, 100, name="d")), 50, selection="match", seed=0
    )
    assert len(set(choice.rows)) == 50
    assert choice.report.verdict == "fail"


def test_herding_is_the_greedy_choice_of_its_definition() -> None:
    rng = np.random.default_rng(8)
    rows, target = rng.standard_normal((12, 5)), rng.standard_normal((9, 5))
    taken: list[int] = []
    for _ in range(7):
        scores = {
            i: np.mean([rows[i] @ y for y in target])
            - sum(rows[i] @ rows[s] for s in taken) / (len(taken) + 1)
            for i in range(12)
            if i not in taken
        }
        taken.append(max(scores, key=lambda i: scores[i]))
    assert list(herd(rows, target.mean(axis=0), 7)) == taken
    assert sorted(herd(rows, target.mean(axis=0), 99)) == list(range(12))


def test_a_large_pool_is_looked_at_in_part_and_its_tail_first() -> None:
    rng = np.random.default_rng(9)
    pool = normal(rng, MOST + 3000, name="c")
    deployment = normal(rng, 200, name="d")
    rows = select(pool, deployment, 100)
    assert len(set(rows)) == 100
    order = rng.permutation(len(pool))
    again = pool.take(order).take(select(pool.take(order), deployment, 100))
    assert again.ids == pool.take(rows).ids
    assert drift_report(pool.take(rows), profile(deployment), seed=0).verdict == "pass"
