"""What workers tell each other through the store, with threads and a store in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from quantflow.artifacts.run_directory import RunDirectory
from quantflow.config import load_config
from quantflow.errors import ExitCode, QuantflowError, fail
from quantflow.runtime import distributed
from quantflow.runtime.distributed import Dismissed, TorchWorkers, WorkerBug
from quantflow.runtime.workers import Place
from quantflow.stages.pipeline import STAGES, assist, run_stage
from quantflow.stages.stage import Context
from tests.cli.tiny_project import write_project


def _team(count: int) -> list[TorchWorkers]:
    from torch.distributed import HashStore

    store = HashStore()
    return [TorchWorkers(store, Place(rank, count, rank, count)) for rank in range(count)]


def _raised(by: Callable[[], object]) -> Exception:
    try:
        by()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_orders_come_in_turn_and_the_exit_status_last() -> None:
    leader, other = _team(2)
    leader.assign({"stage": "a", "inputs": {"x": "1"}})
    leader.assign({"stage": "b", "inputs": {}})
    assert other.next_order() == {"stage": "a", "inputs": {"x": "1"}}
    assert other.next_order() == {"stage": "b", "inputs": {}}
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(other.next_order)
        dismissal = threading.Thread(target=leader.dismiss, args=(3,))
        dismissal.start()
        assert waiting.result(10) == 3
        assert dismissal.is_alive()  # until the others have left
        other.leave()
        dismissal.join(10)
        assert not dismissal.is_alive()


def test_counters_are_shared_one_by_one() -> None:
    leader, other = _team(2)
    first, second = (leader.counter(), other.counter()), (leader.counter(), other.counter())
    assert [first[0](2), first[1](3), second[1](1), first[0](0)] == [2, 5, 1, 5]


def test_a_problem_reaches_the_leader_with_its_place_and_status() -> None:
    leader, _, other = _team(3)
    other.report(_raised(lambda: fail("QF501", "does not fit", where="tensor t", fix="rerun")))
    error = _raised(lambda: leader.counter()(1))
    assert isinstance(error, QuantflowError) and error.exit_code == ExitCode.USAGE
    (problem,) = error.problems
    assert (problem.code, problem.what, problem.fix) == ("QF501", "does not fit", "rerun")
    assert problem.where == "worker 2: tensor t"


def test_a_bug_reaches_the_leader_with_its_traceback() -> None:
    leader, other = _team(2)
    other.report(_raised(lambda: 1 // 0))
    error = _raised(lambda: leader.counter()(1))
    assert isinstance(error, WorkerBug) and "worker 1: ZeroDivisionError" in str(error)
    assert "1 // 0" in error.__notes__[0]


def test_the_leader_does_not_wait_for_a_worker_that_has_failed() -> None:
    leader, other = _team(2)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(leader.connect, "cpu")
        other.report(_raised(lambda: fail("QF501", "does not fit")))
        with pytest.raises(QuantflowError, match="QF501"):
            waiting.result(10)


def test_others_stop_when_the_leader_ends() -> None:
    leader, other = _team(2)
    dismissal = threading.Thread(target=leader.dismiss, args=(1,))
    dismissal.start()
    while not isinstance(other.next_order(), int):
        pass
    for step in (lambda: other.counter()(1), lambda: other.connect("cpu")):
        with pytest.raises(Dismissed):
            step()
    other.leave()
    dismissal.join(10)


def test_a_worker_that_stands_still_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "STALL_S", 0.2)
    leader, _ = _team(2)
    with pytest.raises(QuantflowError, match="QF605 other workers have made no progress"):
        leader.connect("cpu")


def test_a_leader_with_other_inputs_is_refused(tmp_path: Path) -> None:
    loaded = load_config(write_project(tmp_path))
    context = Context(loaded, RunDirectory(loaded.run_directory))
    for stage in STAGES[:2]:
        run_stage(context, stage)
    other = {**STAGES[2].inputs(context), "00_model": "another"}
    with pytest.raises(QuantflowError, match=r"QF606 .* differ in: 00_model, version"):
        assist(context, STAGES[2].folder, other)
