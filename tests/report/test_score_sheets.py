from math import log1p

import pytest

from quantflow.artifacts.sweep_record import SideResult, SweepRecord
from quantflow.report.score_sheets import scores_sheet, sides_sheet
from tests.report.sample_run import cosine_measure, effect, perplexity_sweep, sweep
from tests.report.test_plan_sheets import column


def test_scores_are_ranked_with_both_effects_sides_and_places() -> None:
    first, second = scores_sheet(sweep()).rows
    assert first == (
        *("1=", "head", "classifier", "44.44%", "0.980000"),
        *("0.02", "0.01 to 0.04", "0.019", "0.0095 to 0.038"),
        *("0.002", "0.016", "1 to 2"),
    )
    assert second[:2] == ("1=", "block.qk")


def test_tied_groups_share_the_rank_of_the_first() -> None:
    score = sweep().scores[0]
    tied = (False, True, True, False, False)
    scores = tuple(score.model_copy(update={"tied": x}) for x in tied)
    record = sweep().model_copy(update={"scores": scores})
    assert column(scores_sheet(record), "rank") == ["1", "2=", "2=", "2=", "5"]


def test_of_the_perplexity_the_damage_is_the_rise_in_percent() -> None:
    sheet = scores_sheet(perplexity_sweep())
    assert column(sheet, "perplexity") == ["30", "22"]
    assert column(sheet, "damage") == ["50.00%", "10.00%"]
    # Half and twice a damage of log(1.1): sqrt(1.1) is 1.0488, and 1.1 squared 1.21.
    assert column(sheet, "95% interval")[1] == "4.88% to 21.00%"
    assert column(sheet, "among others") == ["25.00%", "5.00%"]
    assert "rise of the perplexity" in sheet.note


def test_a_side_that_was_measured_of_no_group_has_no_column_and_one_of_some_has_dashes() -> None:
    sheet = scores_sheet(perplexity_sweep())
    assert "weights" not in sheet.head
    assert column(sheet, "activations") == ["-", "10.00%"]
    assert "Weights, activations: damage with only these of it in INT8, on 16 samples" in sheet.note


def test_the_number_of_samples_is_a_column_only_where_it_differs() -> None:
    halved, plain = scores_sheet(perplexity_sweep()), scores_sheet(sweep())
    assert column(halved, "samples") == ["64", "16"] and "up to 64" in halved.note
    assert "samples" not in plain.head and "on 3 calibration samples" in plain.note


def test_a_place_that_is_certain_is_one_number() -> None:
    assert column(scores_sheet(perplexity_sweep()), "places") == ["1", "2"]
    assert column(scores_sheet(sweep()), "places") == ["1 to 2", "1 to 2"]


def test_stability_and_correlation_are_told_where_they_are_defined() -> None:
    assert "Rank stability 0.88" in scores_sheet(sweep()).note
    assert "correlate by 0.50" in scores_sheet(sweep()).note
    unknown = {"rank_stability": None, "in_out_correlation": None}
    note = scores_sheet(sweep().model_copy(update=unknown)).note
    assert "stability" not in note and "correlate" not in note


def scored(metric: str, value: float, damage: float) -> SweepRecord:
    score = sweep().scores[0].model_copy(update={"one_in": effect(value, damage)})
    return sweep().model_copy(update={"metric": metric, "scores": (score,)})


@pytest.mark.parametrize(
    ("metric", "value", "damage", "head", "shown", "told"),
    [
        ("cosine", 0.98, 0.02, "cosine", "0.980000", "0.02"),
        ("sqnr", 20.0, 0.01, "SQNR dB", "20.0", "0.01"),  # a hundredth of the power is -20 dB
        ("agreement", 0.97, 0.03, "agreement", "97.00%", "3.00%"),
        ("perplexity", 22.0, log1p(0.1), "perplexity", "22", "10.00%"),
        ("function", 0.25, -0.5, "figure", "0.25", "-0.5"),  # better than fp32
    ],
)
def test_a_value_is_told_in_the_metric_s_own_unit(
    metric: str, value: float, damage: float, head: str, shown: str, told: str
) -> None:
    sheet = scores_sheet(scored(metric, value, damage))
    assert (column(sheet, head), column(sheet, "damage")) == ([shown], [told])


@pytest.mark.parametrize("metric", ["kl", "relative_error"])
def test_a_metric_that_is_its_own_damage_is_told_once(metric: str) -> None:
    sheet = scores_sheet(scored(metric, 0.125, 0.125))
    assert sheet.head[3:5] == ("MACs", "damage") and column(sheet, "damage") == ["0.125"]


def test_without_a_search_the_tables_say_so() -> None:
    record = sweep().model_copy(update={"policy": "none", "scores": (), "sides": ()})
    for sheet in (scores_sheet(record), sides_sheet(record)):
        assert sheet.rows == () and "policy auto" in sheet.note


def test_sides_stand_beside_the_budget_and_the_one_that_hurts_is_named() -> None:
    sheet = sides_sheet(sweep())
    assert column(sheet, "cosine") == ["0.999900", "0.996000", "0.980000", "0.974000", ">= 0.99"]
    assert column(sheet, "meets budget") == ["yes", "yes", "no", "no", ""]
    assert "INT8 activations hurt more than INT8 weights" in sheet.note


def test_sides_whose_intervals_overlap_are_not_told_apart() -> None:
    # The intervals of 22 and 22.5 are 21.5 to 23 and 22 to 23.5.
    assert "neither side clearly hurts more" in sides_sheet(perplexity_sweep()).note


def test_weights_that_hurt_more_are_named() -> None:
    worse = SideResult(side="weights", measures=(cosine_measure(0.9),))
    sides = (*(x for x in sweep().sides if x.side != "weights"), worse)
    note = sides_sheet(sweep().model_copy(update={"sides": sides})).note
    assert "INT8 weights hurt more than INT8 activations" in note
