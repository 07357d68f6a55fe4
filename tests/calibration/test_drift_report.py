"""The verdict: quiet where nothing has changed, clear where something has, honest in between."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from quantflow.artifacts.drift_record import DriftReport
from quantflow.calibration.drift.report import drift_report
from quantflow.calibration.features.table import FeatureTable
from quantflow.user_code import load_function

from .drift_tables import normal, table, text_table

FOLDER = Path(__file__).parents[2] / "calibration_sets" / "minilm_wikipedia"


def _report(change: Callable[[np.ndarray], None], size: int, deployment: int) -> DriftReport:
    rng = np.random.default_rng(7)
    values = rng.standard_normal((size, 6))
    change(values)
    return drift_report(table(values, "c"), normal(rng, deployment, name="d"), seed=0)


@pytest.mark.parametrize(("size", "deployment"), [(200, 200), (64, 200), (50, 60), (400, 150)])
def test_samples_of_one_source_pass(size: int, deployment: int) -> None:
    verdicts: list[str] = []
    for seed in range(8):
        rng = np.random.default_rng([seed, size])
        # Skewed, heavy-tailed, mostly zero and constant features as well as normal ones.
        x = rng.standard_normal((size + deployment, 6))
        odd = [np.exp(x), x**3, np.maximum(x - 2, 0), np.zeros_like(x), np.round(x)]
        values = np.concatenate([x, *odd], axis=1)
        parts = table(values[:size], "c"), table(values[size:], "d")
        verdicts.append(drift_report(*parts, seed=seed).verdict)
    assert verdicts.count("pass") >= 7


def test_many_features_do_not_add_up_to_a_false_alarm() -> None:
    rng = np.random.default_rng(0)
    parts = normal(rng, 100, 300, "c"), normal(rng, 100, 300, "d")
    report = drift_report(*parts, seed=0)
    assert all(row.verdict == "pass" for row in report.features)


def test_a_shifted_mean_fails_and_its_feature_is_named() -> None:
    def change(values: np.ndarray) -> None:
        values[:, 2] += 1

    report = _report(change, 200, 200)
    assert report.verdict == "fail"
    assert report.features[0].feature == "f2"
    assert [row.verdict for row in report.features[1:]] == ["pass"] * 5
    assert report.reasons[0].startswith("f2 differs from deployment")


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
    assert (report.features[0].feature, report.features[0].test) == ("f3", "wasserstein")
    last = size // 10 - 1
    assert report.features[0].examples == (f"c[{last}]", f"c[{last - 1}]", f"c[{last - 2}]")


def test_a_single_odd_sample_is_no_drift() -> None:
    def change(values: np.ndarray) -> None:
        values[0] = 1000

    assert _report(change, 64, 200).verdict == "pass"


def test_a_joint_change_that_no_feature_shows_is_left_to_the_classifier() -> None:
    rng = np.random.default_rng(3)
    shared = rng.standard_normal((200, 20)) + 0.4
    report = drift_report(table(shared, "c"), normal(rng, 200, 20, "d"), seed=0)
    assert report.classifier is not None
    # Twenty independent shifts of 0.4: the best possible area is 0.897.
    assert report.classifier.verdict == "fail"
    assert max(row.effect for row in report.features) < report.fail_above
    assert "classifier" in report.reasons[0]


def test_one_sample_repeated_fifty_times_counts_once_and_does_not_pass() -> None:
    rng = np.random.default_rng(1)
    values = np.repeat(rng.standard_normal((1, 6)), 50, axis=0)
    copies = table(values, "c", digests=("x",) * 50)
    report = drift_report(copies, normal(rng, 200, name="d"), seed=0)
    assert report.verdict == "fail"
    assert report.counts.calibration_duplicates == 49
    assert report.counts.calibration_effective == 1
    assert report.classifier is None
    assert "49 of 50 calibration samples repeat others" in report.reasons[0]


def test_too_few_samples_are_said_with_the_number_needed() -> None:
    rng = np.random.default_rng(2)
    for deployment in (1, 9, 12, 25):
        report = drift_report(normal(rng, 64, name="c"), normal(rng, deployment, name="d"), seed=0)
        assert report.verdict == "warn"
        assert report.counts.deployment_needed == 31
        assert "31 different deployment samples are needed" in report.reasons[-1]
        assert "raise set.deployment_samples" in report.reasons[-1]


def test_without_deployment_nothing_is_claimed() -> None:
    report = drift_report(normal(np.random.default_rng(0), 64), None, seed=0)
    assert report.verdict == "warn"
    assert report.features == ()
    assert "no deployment sample" in report.reasons[0]


def test_overlap_with_the_evaluation_set_is_said() -> None:
    rng = np.random.default_rng(4)
    sets = normal(rng, 100, name="c"), normal(rng, 100, name="d")
    report = drift_report(*sets, seed=0, evaluation_overlap=12)
    assert report.verdict == "warn"
    assert report.reasons[0].startswith("12 candidates equal evaluation samples")


def test_the_order_of_the_samples_does_not_matter() -> None:
    rng = np.random.default_rng(5)
    sets = [normal(rng, 60, name="c"), normal(rng, 80, name="d")]
    shuffled = [x.take(rng.permutation(len(x))) for x in sets]
    assert drift_report(*sets, seed=1) == drift_report(*shuffled, seed=1)


def test_counts_of_categories_are_compared_and_their_examples_are_the_odd_samples() -> None:
    rng = np.random.default_rng(6)
    usual, other = [0.7, 0.2, 0.1, 0.0], [0.1, 0.1, 0.1, 0.7]

    def counted(name: str, odd: int, count: int = 100) -> FeatureTable:
        rows = [rng.multinomial(50, other if i < odd else usual) for i in range(count)]
        return table(np.zeros((count, 1)), name, counts={"words": np.array(rows)})

    passing = drift_report(counted("c", 0), counted("d", 0), seed=0)
    assert passing.verdict == "pass"
    failing = drift_report(counted("c", 20), counted("d", 0), seed=0)
    assert failing.verdict == "fail"
    assert (failing.features[0].feature, failing.features[0].test) == ("words", "jensen-shannon")
    assert {int(x[2:-1]) < 20 for x in failing.features[0].examples} == {True}


def _texts(name: str, count: int, seed: int) -> list[str]:
    records = load_function(f"data:{name}", FOLDER)()
    return [record["text"] for record in random.Random(seed).sample(records, count)]


def test_prose_passes_for_prose_and_code_fails_by_its_characters() -> None:
    texts = _texts("deployment_paragraphs", 300, 0)
    prose, deployment = text_table(texts[:100], "c"), text_table(texts[100:], "d")
    assert drift_report(prose, deployment, seed=0).verdict == "pass"
    code = text_table(_texts("python_functions", 100, 0), "c")
    report = drift_report(code, deployment, seed=0)
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
    assert drift_report(same, deployment, seed=0).verdict == "pass"
    report = drift_report(other, deployment, seed=0)
    assert report.verdict == "fail"
    assert "text.non_ascii" in [row.feature for row in report.features if row.verdict == "fail"]
