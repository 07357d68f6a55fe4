from hypothesis import given
from hypothesis import strategies as st

from quantflow.report.sheet import Sheet, cosine_text, share_text


def test_a_ragged_sheet_is_refused() -> None:
    try:
        Sheet("t", ("a", "b"), "ll", (("1",),))
    except ValueError:
        return
    raise AssertionError


@given(st.floats(min_value=1e-9, max_value=1.0))
def test_a_cosine_below_one_never_reads_as_one(distance: float) -> None:
    shown = 1.0 - float(cosine_text(1.0 - distance))
    assert shown > 0
    # Half of the last digit: the sixth, or the first that differs from 9.
    assert abs(shown - distance) <= max(5.1e-7 if distance >= 5e-6 else 0.0, 0.51 * distance)


def test_a_share_that_is_not_zero_never_reads_as_zero() -> None:
    assert share_text(0.0) == "0.00%"
    assert share_text(1e-9) == "<0.01%"
    assert share_text(0.25) == "25.00%"


@given(st.floats(min_value=0.0, max_value=1.0), st.integers(0, 5))
def test_a_share_that_is_not_all_never_reads_as_all(value: float, digits: int) -> None:
    text = share_text(value, digits)
    assert (float(text.strip("%<>")) == 100 and ">" not in text) == (value == 1)
    assert share_text(0.9999999, 1) == ">99.9%" and share_text(1.0, 1) == "100.0%"


def test_text_columns_that_say_nothing_are_dropped() -> None:
    sheet = Sheet("t", ("name", "n", "flag"), "lrl", (("a", "", ""), ("b", "2", "")))
    assert sheet.filled().head == ("name", "n")


def test_spare_columns_are_still_the_same_ones_after_others_are_gone() -> None:
    sheet = Sheet("t", ("a", "b", "c", "d"), "lrrr", (("", "1", "2", "3"),), spare=(3, 1))
    left = sheet.filled()
    assert left.head == ("b", "c", "d") and left.spare == (2, 0)
    assert left.without([2]).head == ("b", "c") and left.without([2]).spare == (0,)


def test_a_cut_sheet_says_how_many_rows_there_are() -> None:
    sheet = Sheet("t", ("a",), "l", (("1",), ("2",), ("3",)), "why")
    assert sheet.first(2).rows == (("1",), ("2",))
    assert sheet.first(2).note == "2 of 3 rows. why"
    assert sheet.first(3) is sheet
    assert sheet.first(2, "--limit 3 shows all").note == "2 of 3 rows; --limit 3 shows all. why"
