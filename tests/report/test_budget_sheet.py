"""Every precision beside the budget."""

from __future__ import annotations

from quantflow.report.budget_sheet import budget_sheet
from tests.report.sample_run import comparison


def test_the_limit_stands_below_what_each_precision_comes_to() -> None:
    sheet = budget_sheet(comparison())
    assert sheet.head == ("precision", "cosine", "95% interval")
    assert sheet.rows == (
        ("fp16", "0.9999991", "0.997999 to 1.000999"),
        ("int8", "0.994600", "0.992600 to 0.995600"),
        ("budget of int8", ">= 0.99", ""),
    )
    assert sheet.footed


def test_nothing_measured_is_no_table() -> None:
    assert budget_sheet(comparison().model_copy(update={"measures": {}})).rows == ()
