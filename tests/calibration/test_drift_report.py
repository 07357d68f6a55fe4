"""The verdict: quiet where nothing has changed, clear where something has, honest in between."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from quantflow.artifacts.drift_record import DriftReport
from quantflow.calibration.drift.distances import JOINT
from quantflow.calibration.drift.report import drift_report
from quantflow.calibration.features.table import FeatureTable
from quantflow.calibration.profile.profile_file import load_profile, save_profile
from quantflow.user_code import load_function

from .drift_tables import normal, profile, table, text_table

FOLDER = Path(__file__).parents[2] / "calibration_sets" / "minilm_wikipedia"


def judge(calibration: FeatureTable, deployment: FeatureTable | None, **more: Any) -> DriftReport:
    """The report on a set, with the deployment sample at hand."""
    production = profile(deployment) if deployment is not None else None
    return drift_report(calibration, production, rows=deployment, **more)


def _report(change: Callable[[np.ndarray], None], size: int, deployment: int) -> DriftReport:
    rng = np.random.default_rng(7)
    values = rng.standard_normal((size, 6))
    change(values)
    return judge(table(values, "c"), normal(rng, deployment, name="d"), seed=0)


SIZES = ((200, 200), (50, 60), (400, 150))
"""Further sizes of set and deployment, for the slow tests."""


@pytest.mark.parametrize(
    ("size", "deployment"),
    [(64, 200), *(pytest.param(*x, marks=pytest.mark.slow) for x in SIZES)],
)
def test_samples_of_one_source_pass(size: int, deployment: int) -> None:
    verdicts: list[str] = []
    for seed in range(8):
        rng = np.random.default_rng([seed, size])
        # Skewed, heavy-tailed, mostly zero and constant features as well as normal ones.
        x = rng.standard_normal((size + deployment, 6))
        odd = [np.exp(x), x**3, np.maximum(x - 2, 0), np.zeros_like(x), np.round(x)]
        values = np.concatenate([x, *odd], axis=1)
        parts = table(values[:size], "c"), table(values[size:], "d")
        verdicts.append(judge(*parts, seed=seed).verdict)
    assert verdicts.count("pass") >= 7


def test_many_features_do_not_add_up_to_a_false_alarm() -> None:
    rng = np.random.default_rng(0)
    parts = normal(rng, 100, 300, "c"), normal(rng, 100, 300, "d")
    report = judge(*parts, seed=0)
    assert all(row.verdict == "pass" for row in report.features)


def test_a_shifted_mean_fails_and_its_feature_is_named() -> None:
    def change(values: np.ndarray) -> None:
        values[:, 2] += 1

    report = _report(change, 200, 200)
    assert report.verdict == "fail"
    assert report.features[0].feature == "f2"
    others = [row.verdict for row in report.features[1:] if row.feature != JOINT]
    assert others == ["pass"] * 5
    assert report.reasons[0].startswith("f2: unlike deployment")


def test_a_wider_spread_fails() -> None:
    def change(values: np.ndarray) -> None:
        values[:, 1] *= 4

    report = _report(change, 200, 200)
    assert report.verdict == "fail"
    assert report.features[0].feature == "f1"


@pytest.mark.parametrize(("size", "verdict"), [(1000, "fail"), (150, "warn")])
def test_a_rare_tail_is_seen_and_the_samples_in_it_are_named(size: int, verdict: str) -> None:
    def change(values: np.ndarray) -> None:
        values[: size // 10, 3] = 30 + np.arange(size // 10)

    report = _report(change, size, size)
    assert report.verdict == verdict
    assert report.features[0].feature == "f3"
    last = size // 10 - 1
    assert report.features[0].examples == (f"c[{last}]", f"c[{last - 1}]", f"c[{last - 2}]")


def test_a_single_odd_sample_is_no_drift() -> None:
    def change(values: np.ndarray) -> None:
        values[0] = 1000

    assert _report(change, 64, 200).verdict == "pass"


def test_a_joint_change_that_no_feature_shows_is_seen_by_all_together() -> None:
    rng = np.random.default_rng(3)
    shared = rng.standard_normal((200, 20)) + 0.4
    report = judge(table(shared, "c"), normal(rng, 200, 20, "d"), seed=0)
    assert report.verdict == "fail"
    assert (report.features[0].feature, report.features[0].test) == (JOINT, "mmd")


def test_the_classifier_is_reported_and_does_not_count() -> None:
    rng = np.random.default_rng(3)
    shared = rng.standard_normal((200, 20)) + 0.4
    deployment = normal(rng, 200, 20, "d")
    report = judge(table(shared, "c"), deployment, seed=0)
    assert report.classifier is not None
    # Twenty independent shifts of 0.4: the best possible area is 0.897.
    assert 0.8 < report.classifier.auc < 0.93
    alone = drift_report(table(shared, "c"), profile(deployment), seed=0)
    assert alone == report.model_copy(update={"classifier": None})


def test_a_tenth_of_another_kind_is_noticed() -> None:
    noticed = 0
    for seed in range(10):
        rng = np.random.default_rng([seed, 9])
        values = rng.standard_normal((200, 6))
        values[:20, 4] += 12
        report = judge(table(values, "c"), normal(rng, 200, name="d"), seed=seed)
        noticed += report.verdict != "pass" and report.features[0].feature == "f4"
    assert noticed >= 9


def test_a_tenth_of_production_of_another_kind_is_noticed() -> None:
    rng = np.random.default_rng(5)
    values = rng.standard_normal((300, 6))
    values[:30, 3] = 5 + rng.random(30) / 10  # near enough to move no mean or quantile much
    report = judge(normal(rng, 300, name="c"), table(values, "d"), seed=0)
    assert report.verdict != "pass"
    (row,) = [x for x in report.features if x.feature == "f3"]
    assert (row.test, row.examples) == ("uncovered", ())
    assert row.uncovered_fraction == pytest.approx(0.1, abs=0.02)
    (reason,) = [x for x in report.reasons if x.startswith("f3: ")]
    assert "% of deployment's samples lie beyond all of the calibration set's" in reason
    assert not reason.rstrip().endswith("see")


def test_categories_are_compared() -> None:
    def scripts(name: str, shares: list[float], seed: int) -> FeatureTable:
        kinds = np.random.default_rng(seed).choice(3, 150, p=shares)
        one_hot = np.eye(3, dtype=np.int64)[kinds]
        return table(np.zeros((150, 1)), name, categories={"text.script": one_hot})

    usual = [0.9, 0.1, 0.0]
    production = scripts("d", usual, 0)
    assert judge(scripts("c", usual, 1), production, seed=0).verdict == "pass"
    report = judge(scripts("c", [0.3, 0.1, 0.6], 2), production, seed=0)
    assert report.verdict == "fail"
    assert (report.features[0].feature, report.features[0].test) == ("text.script", "chi-square")


def test_figures_of_a_feature_are_those_of_its_values() -> None:
    rng = np.random.default_rng(11)
    ours, theirs = rng.standard_normal((60, 1)) * 2 + 3, rng.standard_normal((60, 1))
    row = judge(table(ours, "c"), table(theirs, "d"), seed=0).features[0]
    assert row.feature == "f0"
    assert row.calibration_median == pytest.approx(np.median(ours))
    assert row.deployment_median == pytest.approx(np.median(theirs), abs=0.1)
    # A profile rounds the values at its ends.
    assert row.shift == pytest.approx((ours.mean() - theirs.mean()) / theirs.std(), rel=0.02)
    outside = (ours < theirs.min()) | (ours > theirs.max())
    assert row.outside_fraction == pytest.approx(outside.mean(), abs=0.04)
    assert row.p_value == pytest.approx(1 / 401)


def test_the_power_is_what_a_shift_or_a_share_of_others_takes() -> None:
    rng = np.random.default_rng(12)
    deployment = normal(rng, 300, 3, "d")
    power = judge(normal(rng, 100, 3, "c"), deployment, seed=0).power
    assert power is not None
    few = judge(normal(rng, 30, 3, "e"), deployment, seed=0).power
    assert few is not None and few.share > power.share and few.shift > power.shift

    def distance(values: np.ndarray) -> float:
        return float(stats.ks_2samp(values, rng.standard_normal(100_000)).statistic)

    # Large samples, so that the distances are those of the distributions.
    shifted = rng.standard_normal(100_000) + power.shift
    mixed = np.append(rng.standard_normal(100_000), [99.0] * 100_000)
    mixed = mixed[: round(100_000 / (1 - power.share))]
    assert distance(shifted) == pytest.approx(power.share, abs=0.01)
    assert distance(mixed) == pytest.approx(power.share, abs=0.01)


def test_a_profile_read_from_its_file_gives_the_same_report(tmp_path: Path) -> None:
    rng = np.random.default_rng(13)
    texts = _texts("deployment_paragraphs", 150, 3)
    production = profile(text_table(texts, "d"))
    save_profile(tmp_path / "p.safetensors", production)
    again = load_profile(tmp_path / "p.safetensors")
    for name in ("deployment_paragraphs", "python_functions"):
        ours = text_table(_texts(name, 80, int(rng.integers(99))), "c")
        assert drift_report(ours, again, seed=0) == drift_report(ours, production, seed=0)


def test_one_sample_repeated_fifty_times_counts_once_and_does_not_pass() -> None:
    rng = np.random.default_rng(1)
    values = np.repeat(rng.standard_normal((1, 6)), 50, axis=0)
    copies = table(values, "c", digests=("x",) * 50)
    report = judge(copies, normal(rng, 200, name="d"), seed=0)
    assert report.verdict == "fail"
    assert report.counts.calibration_duplicates == 49
    assert report.counts.calibration_effective == 1
    assert report.classifier is None
    assert "49 of 50 calibration samples repeat others" in report.reasons[0]


def test_the_duplicate_rate_of_both_sides_is_a_figure() -> None:
    rng = np.random.default_rng(6)
    once, pairs = rng.standard_normal((60, 4)), rng.standard_normal((50, 4))
    digests = tuple(str(i // 2) for i in range(100))
    twice = table(np.repeat(pairs, 2, axis=0), digests=digests)
    counts = judge(table(once), twice, seed=0).counts
    assert (counts.calibration_repeated, counts.deployment_repeated) == (0, 0.5)
    counts = judge(twice, table(once), seed=0).counts
    assert (counts.calibration_repeated, counts.deployment_repeated) == (0.5, 0)
    assert judge(twice, None, seed=0).counts.deployment_repeated == 0


def test_too_few_samples_are_said_with_the_number_needed() -> None:
    rng = np.random.default_rng(2)
    for deployment in (1, 9, 12, 25):
        report = judge(normal(rng, 64, name="c"), normal(rng, deployment, name="d"), seed=0)
        assert report.verdict == "warn"
        assert report.counts.deployment_needed == 31
        assert "31 different deployment samples are needed" in report.reasons[-1]
        assert "raise set.deployment_samples" in report.reasons[-1]


def test_without_deployment_nothing_is_claimed() -> None:
    report = judge(normal(np.random.default_rng(0), 64), None, seed=0)
    assert report.verdict == "warn"
    assert report.features == ()
    assert "no deployment sample" in report.reasons[0]


def test_overlap_with_the_evaluation_set_is_said() -> None:
    rng = np.random.default_rng(4)
    sets = normal(rng, 100, name="c"), normal(rng, 100, name="d")
    report = judge(*sets, seed=0, evaluation_overlap=12)
    assert report.verdict == "warn"
    assert report.reasons[0].startswith("12 candidates equal evaluation samples")


def test_the_order_of_the_samples_does_not_matter() -> None:
    rng = np.random.default_rng(5)
    sets = [normal(rng, 60, name="c"), normal(rng, 80, name="d")]
    shuffled = [x.take(rng.permutation(len(x))) for x in sets]
    assert judge(*sets, seed=1) == judge(*shuffled, seed=1)


def test_counts_of_categories_are_compared_and_their_examples_are_the_odd_samples() -> None:
    rng = np.random.default_rng(6)
    usual, other = [0.7, 0.2, 0.1, 0.0], [0.1, 0.1, 0.1, 0.7]

    def counted(name: str, odd: int, count: int = 100) -> FeatureTable:
        rows = [rng.multinomial(50, other if i < odd else usual) for i in range(count)]
        return table(np.zeros((count, 1)), name, counts={"words": np.array(rows)})

    passing = judge(counted("c", 0), counted("d", 0), seed=0)
    assert passing.verdict == "pass"
    failing = judge(counted("c", 20), counted("d", 0), seed=0)
    assert failing.verdict == "fail"
    assert (failing.features[0].feature, failing.features[0].test) == ("words", "jensen-shannon")
    assert {int(x[2:-1]) < 20 for x in failing.features[0].examples} == {True}


def _texts(name: str, count: int, seed: int) -> list[str]:
    records = load_function(f"data:{name}", FOLDER)()
    return [record["text"] for record in random.Random(seed).sample(records, count)]


def test_prose_passes_for_prose_and_code_fails_by_its_characters() -> None:
    texts = _texts("deployment_paragraphs", 300, 0)
    prose, deployment = text_table(texts[:100], "c"), text_table(texts[100:], "d")
    assert judge(prose, deployment, seed=0).verdict == "pass"
    code = text_table(_texts("python_functions", 100, 0), "c")
    report = judge(code, deployment, seed=0)
    assert report.verdict == "fail"
    assert report.features[0].feature == "text.newlines"


def test_chinese_calibration_fails_for_english_deployment() -> None:
    letters = random.Random(0)
    words = ["the", "of", "a", "model", "reads", "what", "people", "write", "and", "its", "place"]
    signs = "的一是了我不人在他有这个上们来到时大地为子中你说生国年着就那和要她出也得里后自以会"

    def english() -> str:
        return " ".join(letters.choices(words, k=letters.randint(20, 60))).capitalize() + "."

    def chinese() -> str:
        return "".join(letters.choices(signs, k=letters.randint(20, 60))) + "。"

    deployment = text_table([english() for _ in range(150)], "d")
    same, other = (text_table([f() for _ in range(64)], "c") for f in (english, chinese))
    assert judge(same, deployment, seed=0).verdict == "pass"
    report = judge(other, deployment, seed=0)
    assert report.verdict == "fail"
    assert "text.non_ascii" in [row.feature for row in report.features if row.verdict == "fail"]
