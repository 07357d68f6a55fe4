from quantflow.cli.progress import LINE_INTERVAL_S, plain_lines
from quantflow.progress import DETAIL


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_short_work_is_one_line_at_its_end() -> None:
    lines, clock = list[str](), Clock()
    progress = plain_lines(lines.append, clock)
    for done in range(4):
        progress("samples", done, 3)
        clock.now += 0.5
    progress("ranges", 2, 2)
    assert lines == ["samples: 3/3 in 1.5 s", "ranges: 2/2 in 0.0 s"]


def test_long_work_says_now_and_then_how_much_is_left() -> None:
    lines, clock = list[str](), Clock()
    progress = plain_lines(lines.append, clock)
    progress("ranges", 0, 40)
    clock.now = LINE_INTERVAL_S - 1
    progress("ranges", 5, 40)
    clock.now = LINE_INTERVAL_S
    progress("ranges", 10, 40)  # 10 of 40 in 10 s: 30 s left
    clock.now = 40.0
    progress("ranges", 40, 40)
    assert lines == ["ranges: 10/40, about 30 s left", "ranges: 40/40 in 40.0 s"]


def test_work_whose_extent_grows_on_the_way_does_not_flood() -> None:
    lines, clock = list[str](), Clock()
    progress = plain_lines(lines.append, clock)
    for tried in range(25):
        progress("plans tried", tried, tried + 1)
        clock.now += 1
        progress("plans tried", tried + 1, tried + 1)
    assert lines == [
        "plans tried: 1/1 in 1.0 s",
        "plans tried: 11/11 in 11.0 s",
        "plans tried: 21/21 in 21.0 s",
    ]


def test_a_message_without_a_total_is_a_line_when_there_was_none_for_long() -> None:
    lines, clock = list[str](), Clock()
    progress = plain_lines(lines.append, clock)
    progress("atc: starting", 0, 0)
    clock.now = LINE_INTERVAL_S
    progress("atc: working", 0, 0)
    progress("atc: working", 0, 0)
    assert lines == ["atc: working ..."]


def test_a_detail_changes_while_the_same_work_goes_on() -> None:
    lines, clock = list[str](), Clock()
    progress = plain_lines(lines.append, clock)
    for done in range(3):
        progress(f"converting{DETAIL}batch{done}: working", done, 4)
        clock.now += 10
    assert lines[-1] == f"converting{DETAIL}batch2: working: 2/4, about 20 s left"
