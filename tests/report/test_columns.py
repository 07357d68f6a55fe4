import pytest

from quantflow.report.columns import Column, sheet_of


def test_columns_become_rows_with_their_feet_below() -> None:
    columns = [Column("name", ("a", "b"), "l", foot="limit"), Column("n", ("1", "2"), foot="<= 3")]
    sheet = sheet_of("t", columns, "why", footed=True)
    assert sheet.rows == (("a", "1"), ("b", "2"), ("limit", "<= 3"))
    assert (sheet.head, sheet.align, sheet.note) == (("name", "n"), "lr", "why")
    assert sheet_of("t", columns).rows == (("a", "1"), ("b", "2"))


def test_the_column_that_can_be_spared_most_goes_first() -> None:
    spares = (1, 0, 3, 2)
    columns = [
        Column(head, ("1",), spare=spare) for head, spare in zip("abcd", spares, strict=True)
    ]
    assert sheet_of("t", columns).spare == (2, 3, 0)


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="argument"):
        sheet_of("t", [Column("a", ("1",)), Column("b", ())])
