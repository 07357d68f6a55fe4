import pytest
from rich.console import Console

from quantflow.report import plan_sheets, score_sheets
from quantflow.report.sheet import Sheet
from quantflow.report.tables import fitted, rich_table
from tests.report.sample_run import perplexity_sweep, plan, sweep

WIDE = Sheet(
    "t", ("name", "aaaaaaaa", "bbbbbbbb"), "lrr", (("x", "1", "2"),), "Read this.", spare=(2, 1)
)


def shown(sheet: Sheet, width: int) -> list[str]:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(rich_table(fitted(sheet, console)))
    return captured.get().splitlines()


def test_a_table_that_fits_has_all_its_columns() -> None:
    sheet = fitted(WIDE, Console(width=40))
    assert sheet.head == WIDE.head and sheet.note == "Read this."


@pytest.mark.parametrize(("width", "columns"), [(24, 2), (12, 1)])
def test_columns_are_left_out_in_their_order_and_counted(width: int, columns: int) -> None:
    sheet = fitted(WIDE, Console(width=width))
    assert sheet.head == WIDE.head[:columns]
    assert sheet.note.startswith("Read this. ") and "left out at this width" in sheet.note


@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_what_a_sweep_shows_fits_common_terminals_without_a_number_cut_off(width: int) -> None:
    name = "encoder.layer.11.attention.output.dense"
    for record in (sweep(), perplexity_sweep()):
        score = record.scores[0].model_copy(
            update={"group": name, "role": "attention_output", "weights": 0.1}
        )
        record = record.model_copy(update={"scores": (score, *record.scores[1:])})
        for sheet in (
            score_sheets.scores_sheet(record),
            score_sheets.sides_sheet(record),
            plan_sheets.policies_sheet(record),
            plan_sheets.curve_sheet(record, plan()),
        ):
            text = shown(sheet, width)
            assert max(map(len, text)) <= width
            assert "\u2026" not in "".join(text)
            cells = {cell for row in fitted(sheet, Console(width=width)).rows for cell in row}
            drawn = "\n".join(text)
            assert all(cell in drawn for cell in cells)


def test_at_120_columns_policies_show_every_measure_with_share_boundaries_and_cost() -> None:
    head = fitted(plan_sheets.policies_sheet(perplexity_sweep()), Console(width=120)).head
    wanted = {"rise", "95% interval", "cosine", "INT8 MACs", "fp16 groups", "boundaries"}
    assert {*wanted, "est. cost", "meets budget"} <= set(head)
