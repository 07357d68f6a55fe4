from quantflow.artifacts.plan import PlannedGroup, PrecisionPlan
from quantflow.report.plan_sheets import (
    best_points,
    curve_sheet,
    plan_sheet,
    policies_sheet,
    scores_sheet,
)
from tests.report.sample_run import plan, sweep


def test_the_plan_shows_fp16_groups_then_islands_then_counts_the_rest() -> None:
    rows = plan_sheet(plan()).rows
    assert [row[:2] for row in rows] == [
        ("head", "fp16"),
        ("square_node", "fp32"),
        ("1 other group", "int8"),
    ]
    assert rows[0][2] == "pinned"


def test_a_group_that_was_pinned_to_int8_is_named() -> None:
    groups = {
        "a": PlannedGroup(precision="int8", reason="pinned by a"),
        "b": PlannedGroup(precision="int8"),
    }
    rows = plan_sheet(PrecisionPlan(policy="none", groups=groups)).rows
    assert rows == (("a", "int8", "pinned by a"), ("1 other group", "int8", ""))


def test_a_precision_that_contradicts_its_reason_was_edited() -> None:
    groups = {
        "a": PlannedGroup(precision="int8", reason="sensitivity rank 4: damage 0.1"),
        "b": PlannedGroup(precision="int8", reason="policy attention"),
        "c": PlannedGroup(precision="fp16"),
        "d": PlannedGroup(precision="int8"),
        "e": PlannedGroup(precision="fp16", reason="to be sure"),
    }
    rows = plan_sheet(PrecisionPlan(policy="auto", groups=groups), edited=True).rows
    why = {row[0]: row[2] for row in rows}
    assert why == {
        **{"a": "edited", "b": "edited", "c": "edited", "e": "to be sure"},
        "1 other group": "",
    }


def test_an_edited_plan_is_called_edited() -> None:
    assert "Edited" in plan_sheet(plan(), edited=True).note
    assert plan_sheet(plan()).note == ""


def test_scores_are_ranked_with_interval_and_ties() -> None:
    first, second = scores_sheet(sweep()).rows
    assert first == (*("1=", "head", "classifier", "44.44%", "0.02", "0.01 to 0.04"),)
    assert second[:2] == ("1=", "block.qk")


def test_tied_groups_share_the_rank_of_the_first() -> None:
    score = sweep().scores[0]
    tied = (False, True, True, False, False)
    scores = tuple(score.model_copy(update={"tied": x}) for x in tied)
    rows = scores_sheet(sweep().model_copy(update={"scores": scores})).rows
    assert [row[0] for row in rows] == ["1", "2=", "2=", "2=", "5"]


def test_the_policy_in_force_is_marked_unless_the_plan_was_edited() -> None:
    names = [row[0] for row in policies_sheet(sweep()).rows]
    assert names == ["none", "attention", "auto *"]
    edited = policies_sheet(sweep(), edited=True)
    assert [row[0] for row in edited.rows] == ["none", "attention", "auto"]
    assert [row[-1] for row in edited.rows] == ["no", "no", "yes"]


def test_the_curve_runs_from_the_largest_int8_share_and_marks_the_plan() -> None:
    rows = curve_sheet(sweep(), plan()).rows
    assert [row[0] for row in rows] == ["88.88%", "44.44%", "44.44%", "0.00%"]
    assert [row[-1] for row in rows] == ["forward", "forward *", "backward", "beyond"]


def test_of_plans_with_one_share_the_most_accurate_is_on_the_curve() -> None:
    assert [x.fp16_groups for x in best_points(sweep())] == [(), ("head",), ("block.qk", "head")]


def test_without_a_search_the_tables_say_so() -> None:
    record = sweep().model_copy(update={"policy": "none", "scores": (), "curve": ()})
    assert scores_sheet(record).rows == () and "policy auto" in scores_sheet(record).note
    assert curve_sheet(record, None).rows == () and "policy auto" in curve_sheet(record, None).note
