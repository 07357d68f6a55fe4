from math import inf, isclose, log1p
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantflow.config import Metric, TaskConfig
from quantflow.report.quantities import DAMAGES, DROPS, FIGURES, VALUES, percent_text


def test_every_metric_that_groups_can_be_ranked_by_is_told() -> None:
    assert set(DAMAGES) == set(get_args(Metric))
    assert set(DAMAGES) - set(VALUES) == {"kl", "relative_error"}  # those are their own damage


def test_everything_that_the_budget_can_ask_for_is_told() -> None:
    kinds = set(get_args(TaskConfig.model_fields["kind"].annotation))
    assert set(FIGURES) == kinds | {"cosine"}
    assert {name for name in FIGURES if not FIGURES[name].falls} <= set(VALUES)
    assert set(DROPS) == kinds


@pytest.mark.parametrize(
    ("metric", "damage", "limit", "told", "bound", "gap"),
    [
        ("cosine", 0.026, 0.01, "0.974000", "at least 0.99", "0.016"),
        ("perplexity", log1p(0.0821), log1p(0.06), "8.21%", "at most 6%", "2.21 points"),
        ("agreement", 0.048, 0.02, "95.20%", "at least 98%", "2.8 points"),
        ("function", 0.03, 0.02, "0.03", "at most 0.02", "0.01"),
    ],
)
def test_a_measure_its_limit_and_the_gap_between_them(
    metric: str, damage: float, limit: float, told: str, bound: str, gap: str
) -> None:
    figure = FIGURES[metric]
    assert figure.damage_text(damage) == told
    assert figure.bound_text(limit) == bound
    assert figure.gap_text(damage, limit) == gap


@pytest.mark.parametrize("metric", sorted(FIGURES))
@given(st.floats(-1, 5), st.floats(-1, 5))
def test_the_ends_of_an_interval_are_in_order(metric: str, one: float, other: float) -> None:
    low, high = FIGURES[metric].ends(min(one, other), max(one, other))
    assert low <= high


@given(st.floats(-0.9, 100))
def test_the_rise_is_the_ratio_of_perplexities_less_one(share: float) -> None:
    assert isclose(DAMAGES["perplexity"].of_damage(log1p(share)), share, abs_tol=1e-12)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00%"),
        (-1e-7, ">-0.01%"),
        (-0.25, "-25.00%"),
        (18.6, "1860%"),
        (1e300, "1e+302%"),
        (inf, "inf%"),
        (float("nan"), "nan%"),
    ],
)
def test_any_share_can_be_told_in_percent(value: float, text: str) -> None:
    assert percent_text(value) == text


def test_a_damage_beyond_all_numbers_can_be_told() -> None:
    assert DAMAGES["perplexity"].damage_text(1e4) == "inf%"
