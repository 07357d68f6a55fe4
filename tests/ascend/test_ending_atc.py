"""Whatever ends the work ends atc, and whatever atc writes takes bounded memory and disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from quantflow.ascend import output_lines, run_atc
from quantflow.ascend.at_once import at_once
from quantflow.ascend.convert import convert
from quantflow.ascend.interrupts import ENDING, Stop
from quantflow.ascend.output_lines import Stopped, lines_until

from . import fake_atc
from .conftest import Configure, Export
from .fake_atc import process_is_gone, run_script, send


@pytest.mark.parametrize(
    ("mode", "signals"),
    [
        ("hangs", [signal.SIGTERM]),
        ("hangs", [signal.SIGHUP]),
        ("stubborn", [signal.SIGINT, signal.SIGINT]),
        ("stubborn", [signal.SIGTERM, signal.SIGINT]),
    ],
)
def test_signals_end_atc_and_a_second_one_does_not_wait(
    mode: str,
    signals: list[signal.Signals],
    export: Export,
    configure: Configure,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_atc, "_GRACE_S", 40.0)
    loaded = configure(executable=str(fake_atc.install(export.out.parent / "bin", mode)))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    hang_up = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where nohup started the tests
    handlers = [signal.getsignal(number) for number in ENDING]
    started = time.monotonic()
    try:
        send(export.out / "children.txt", signals)
        with pytest.raises(KeyboardInterrupt):
            convert(loaded, export.record, export.directory, export.out)
        assert [signal.getsignal(number) for number in ENDING] == handlers
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGHUP, hang_up)
    assert time.monotonic() - started < 30
    for pid in (export.out / "children.txt").read_text().split():
        assert process_is_gone(int(pid))
    assert not list(export.out.glob("*.om*"))


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:

        def work(job: int, report: Any, stop: Stop) -> int:
            os.kill(os.getpid(), signal.SIGHUP)
            return job

        assert list(at_once([7], work, 1, lambda job, line: None)) == [(0, 7)]
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_interrupt_of_the_grace_period_still_ends_the_group(tmp_path: Path) -> None:
    atc = fake_atc.install(tmp_path / "bin", "stubborn")
    process = subprocess.Popen([atc, "--output=x"], cwd=tmp_path, text=True, start_new_session=True)
    children = tmp_path / "children.txt"
    while not (children.exists() and children.read_text().endswith("\n")):
        time.sleep(0.05)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupt = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_atc._end_group(process, None)  # pyright: ignore[reportPrivateUsage]
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.returncode == -signal.SIGKILL
    assert process_is_gone(int(children.read_text()))


WRITER = """
import sys
for _ in range(100_000):
    print("x" * 100)
sys.stdout.flush()
open(sys.argv[1], "w").close()
"""


def start_writer(done: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", WRITER, str(done)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_a_flood_waits_until_it_is_read(tmp_path: Path) -> None:
    done = tmp_path / "done"
    with start_writer(done) as process:
        lines = lines_until(process, time.monotonic() + 60, None)
        count = len([next(lines)])
        time.sleep(2)  # some 10 MB would be written by now, were they taken
        assert not done.exists()
        assert count + sum(1 for _ in lines) == 100_000
    assert done.exists()


def test_who_stops_reading_leaves_no_thread(tmp_path: Path) -> None:
    threads = threading.active_count()
    process = start_writer(tmp_path / "done")
    stop = Stop()
    lines = lines_until(process, time.monotonic() + 60, stop)
    next(lines)
    stop.asked = True
    with pytest.raises(Stopped):
        list(lines)
    process.kill()
    process.wait()
    end = time.monotonic() + 10
    while threading.active_count() > threads and time.monotonic() < end:
        time.sleep(0.05)
    assert threading.active_count() == threads


def test_the_beginning_of_a_long_log_is_kept_and_the_run_goes_on(
    export: Export, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_lines, "LARGEST_LOG", 1000)
    loaded = configure(executable=str(fake_atc.install(export.out.parent / "bin", "floods")))
    record = convert(loaded, export.record, export.directory, export.out)
    assert record.status == "converted"
    log = (export.out / "logs" / "batch1.log").read_text()
    assert log.startswith("ATC start working now") and len(log) < 1200
    assert "first 1000 bytes" in log


def test_lines_that_nobody_has_time_for_do_not_pile_up() -> None:
    told: list[str] = []

    def work(job: str, report: Any, stop: Stop) -> str:
        for index in range(50_000):
            report(str(index))
        return job

    def slowly(job: str, line: str) -> None:
        told.append(line)
        time.sleep(0.5)

    assert list(at_once(["a"], work, 1, slowly)) == [(0, "a")]
    assert len(told) < 50 and told[-1] == "49999"


def test_the_script_is_ended_by_a_closed_terminal(
    export: Export, configure: Configure, tmp_path: Path
) -> None:
    convert(configure(), export.record, export.directory, export.out)
    bin_dir = fake_atc.install(tmp_path / "bin", "hangs").parent
    process = subprocess.Popen(
        [sys.executable, str(export.out / "convert.py")],
        env={"PATH": str(bin_dir)},
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    children = export.out / "children.txt"
    while not (children.exists() and children.read_text().endswith("\n")):
        time.sleep(0.05)
    process.send_signal(signal.SIGHUP)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out.splitlines()[-1] == "0 of 4 converted; first problem: batch1: not finished"
    assert process_is_gone(int(children.read_text()))
    assert run_script(export.out, fake_atc.install(tmp_path / "bin", "good").parent).returncode == 0
