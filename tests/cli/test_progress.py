from quantflow.cli.progress import LINE_INTERVAL_S, plain_lines


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_work_is_announced_timed_and_its_end_is_said() -> None:
    lines, clock = list[str](), Clock()
    progress = plain_lines(lines.append, clock)
    progress("ranges", 0, 40)
    clock.now = LINE_INTERVAL_S - 1
    progress("ranges", 5, 40)
    clock.now = LINE_INTERVAL_S
    progress("ranges", 10, 40)  # 10 of 40 in 10 s: 30 s left
    clock.now = 40.0
    progress("ranges", 40, 40)
    assert lines == ["ranges ...", "ranges: 10/40, about 30 s left", "ranges: 40/40 in 40.0 s"]


def test_the_same_work_can_be_done_twice() -> None:
    lines = list[str]()
    progress = plain_lines(lines.append, Clock())
    for _ in range(2):
        progress("samples", 1, 1)
    assert lines == ["samples: 1/1 in 0.0 s"] * 2


def test_a_message_without_a_total_is_a_line() -> None:
    lines = list[str]()
    progress = plain_lines(lines.append, Clock())
    progress("atc: working", 0, 0)
    progress("atc: working", 0, 0)
    assert lines == ["atc: working ..."]
