from quantflow.artifacts.plan import PlannedGroup, PrecisionPlan
from quantflow.report.plan_sheets import curve_sheet, plan_sheet, policies_sheet
from quantflow.report.sheet import Sheet
from tests.report.sample_run import perplexity_measure, perplexity_sweep, plan, sweep

NAN = float("nan")


def column(sheet: Sheet, head: str) -> list[str]:
    """The cells of the first column of that name."""
    return [row[sheet.head.index(head)] for row in sheet.rows]


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


def test_the_policy_in_force_is_marked_unless_the_plan_was_edited() -> None:
    assert column(policies_sheet(sweep()), "policy") == ["none", "attention", "auto *", "budget"]
    edited = policies_sheet(sweep(), edited=True)
    assert column(edited, "policy") == ["none", "attention", "auto", "budget"]
    assert column(edited, "meets budget") == ["no", "no", "yes", ""]


def test_a_policy_has_the_cosine_with_its_interval_share_groups_boundaries_and_cost() -> None:
    sheet = policies_sheet(sweep())
    assert sheet.rows[2] == (
        *("auto *", "yes", "0.994600", "0.992600 to 0.995600", "0.984600"),
        *("44.44%", "1", "3", "0.778"),
    )
    assert "nothing was timed" in sheet.note


def test_policies_show_every_measure_and_the_limits_below_them() -> None:
    sheet = policies_sheet(perplexity_sweep())
    assert column(sheet, "perplexity") == ["30", "24", "21", ""]
    # 30, 24 and 21 are 50, 20 and 5% above 20; the interval of 21 is from 20.5 to 22.
    assert column(sheet, "rise") == ["50.00%", "20.00%", "5.00%", "<= 6%"]
    assert column(sheet, "95% interval")[2] == "2.50% to 10.00%"
    assert column(sheet, "cosine") == ["0.980000"] * 3 + [""]  # nothing is asked of it
    assert column(sheet, "INT8 MACs")[-1] == ">= 75%" and column(sheet, "fp16 groups")[-1] == "<= 3"


def test_a_limit_on_the_cosine_is_told_as_it_was_given() -> None:
    assert column(policies_sheet(sweep()), "cosine")[-1] == ">= 0.99"


def test_a_budget_that_is_met_by_less_than_the_interval_is_barely_met() -> None:
    sheet = policies_sheet(perplexity_sweep())  # 5% of 6%, but perhaps 10%
    assert column(sheet, "meets budget") == ["no", "no", "yes, barely", ""]
    assert "Barely: the 95% interval reaches beyond the limit." in sheet.note
    assert "Barely" not in policies_sheet(sweep()).note


def test_the_curve_runs_from_the_largest_int8_share_and_marks_the_plan() -> None:
    sheet = curve_sheet(sweep(), plan())
    assert column(sheet, "INT8 MACs") == ["88.88%", "44.44%", "44.44%", "0.00%"]
    assert column(sheet, "search") == ["curve", "curve *", "backward", "curve"]
    assert column(sheet, "est. cost") == ["0.556", "0.778", "0.778", "1.000"]
    assert column(sheet, "cosine")[1:3] == ["0.995100", "0.980000"]  # the more accurate one first


def test_the_curve_has_every_measure_and_says_what_the_budget_is() -> None:
    sheet = curve_sheet(perplexity_sweep(), plan())
    assert column(sheet, "rise") == ["50.00%", "5.00%", "30.00%", "0.00%"]
    asked = "rise of the perplexity at most 6%, at least 75% of MACs in INT8, at most 3 groups"
    assert asked in sheet.note


def test_a_plan_with_a_broken_output_comes_last_of_its_share() -> None:
    broken = perplexity_measure(21).model_copy(update={"damage": NAN, "low": NAN, "high": NAN})
    curve = sweep().curve
    record = sweep().model_copy(
        update={"curve": (curve[1].model_copy(update={"measures": (broken,)}), curve[3])}
    )
    assert column(curve_sheet(record, None), "search") == ["backward", "curve"]


def test_without_a_search_the_table_says_so() -> None:
    record = sweep().model_copy(update={"policy": "none", "scores": (), "curve": ()})
    assert curve_sheet(record, None).rows == () and "policy auto" in curve_sheet(record, None).note
