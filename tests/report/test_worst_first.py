"""The first row of every table is the one that needs attention most."""

import pytest
from rich.console import Console

from quantflow.report import (
    comparison_sheets,
    coverage_sheets,
    drift_sheets,
    export_sheets,
    model_sheets,
    range_sheets,
)
from quantflow.report.sheet import Sheet
from quantflow.report.tables import rich_table
from tests.report import sample_run as made


@pytest.mark.parametrize(
    ("sheet", "first"),
    [
        (comparison_sheets.errors_sheet(made.comparison()), "block.key"),  # least own SQNR
        (range_sheets.clipping_sheet(made.clipping()), "h"),  # the flagged one
        (coverage_sheets.coverage_sheet(made.coverage("fail")), "head"),
        (drift_sheets.features_sheet(made.drift("fail")), "text.length"),
        (range_sheets.fp16_sheet(made.fp16()), "square"),  # overflow before flushed
        (export_sheets.parity_sheet(made.parity("fail")), "block.key"),
        (export_sheets.factors_sheet(made.export()), "head"),  # not INT8
        (model_sheets.layers_sheet(made.model()), "odd"),  # cannot be INT8
    ],
)
def test_the_worst_row_comes_first(sheet: Sheet, first: str) -> None:
    assert sheet.rows[0][0] == first


def test_the_candidate_in_force_is_marked_on_both_splits() -> None:
    rows = range_sheets.candidates_sheet(made.clipping(), "x").rows
    assert [row[:2] for row in rows] == [
        ("calibration", "minmax *"),
        ("calibration", "kl"),
        ("heldout", "minmax *"),
        ("heldout", "kl"),
    ]


def test_tensors_that_fp16_holds_well_are_not_listed() -> None:
    assert [row[0] for row in range_sheets.fp16_sheet(made.fp16()).rows] == ["square", "tiny"]


def test_precisions_carry_the_task_metric_where_it_was_measured() -> None:
    sheet = comparison_sheets.precisions_sheet(made.comparison())
    cells = {row[0]: row for row in sheet.rows}
    assert sheet.head[-2] == "spearman"
    assert cells["fp32"][-2] == "0.5080"
    assert cells["int8"][1] == "0.994600"
    assert cells["int8, QDQ twin"][-2] == ""


def test_layers_that_are_not_int8_follow_with_the_damage_of_their_group() -> None:
    sheet = comparison_sheets.errors_sheet(made.comparison(), made.export(), made.sweep())
    assert sheet.head[2:] == ("precision", "own SQNR dB", "SQNR dB", "damage to cosine")
    last = sheet.rows[-1]
    assert last == ("head", "head", "fp16", "-", "-", "0.02")
    assert "need not hurt" in sheet.note


def test_the_damage_of_a_layer_s_group_is_in_the_metric_s_own_unit() -> None:
    sheet = comparison_sheets.errors_sheet(made.comparison(), None, made.perplexity_sweep())
    damage = {row[1]: row[-1] for row in sheet.rows}
    assert sheet.head[-1] == "damage to perplexity"
    assert damage == {"head": "50.00%", "block.qk": "10.00%"}


def test_a_plan_without_int8_calls_the_deploy_model_by_its_name() -> None:
    layers = tuple(x.model_copy(update={"precision": "fp16"}) for x in made.export().layers)
    export = made.export().model_copy(update={"layers": layers})
    titles = [row[0] for row in comparison_sheets.precisions_sheet(made.comparison(), export).rows]
    assert "deploy model (no layer INT8)" in titles and "int8" not in titles


def test_a_number_is_never_broken_over_lines_in_a_narrow_terminal() -> None:
    console = Console(width=60, record=True, file=None)
    with console.capture() as captured:
        console.print(rich_table(comparison_sheets.errors_sheet(made.comparison())))
    assert "12.5" in captured.get() and "own SQNR dB" in captured.get()
