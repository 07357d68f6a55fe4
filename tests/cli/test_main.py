"""What stops a command, as an exit status and in words."""

import contextlib
import errno
import json
import os
import re
import signal
from pathlib import Path
from unittest.mock import Mock

import pytest

from quantflow import __main__, __version__
from quantflow.errors import Problem, QuantflowError
from tests.cli.conftest import Call


def stop_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def stop(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(__main__, "app", stop)


@pytest.mark.parametrize(("codes", "exit_code"), [("101 102", 2), ("601", 3), ("601 101", 3)])
def test_every_problem_is_printed_and_the_first_decides_the_status(
    call: Call, monkeypatch: pytest.MonkeyPatch, codes: str, exit_code: int
) -> None:
    problems = [Problem(f"QF{x}", f"what {x}", f"where {x}", f"fix {x}") for x in codes.split()]
    stop_with(monkeypatch, QuantflowError(problems))
    answer = call("run")
    assert answer.code == exit_code
    assert answer.out == ""
    for code in codes.split():
        for part in (f"QF{code} what", f"where: where {code}", f"fix: fix {code}"):
            assert part in answer.err


def test_with_json_problems_are_an_object_on_stdout(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_with(monkeypatch, QuantflowError([Problem("QF101", "a", "b", "c")]))
    expected = {"errors": [{"code": "QF101", "what": "a", "where": "b", "fix": "c"}]}
    assert call("run", "--json").json == expected


def test_ctrl_c_ends_in_one_line(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantflow.cli.explain.say", _interrupt)
    answer = call("explain", "QF101")
    assert answer.code == 130
    assert answer.out == "" and answer.err.count("\n") == 1


def test_an_import_that_ctrl_c_broke_off_is_no_bug(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_off(*_: object, **__: object) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise ImportError("import numpy failed")  # which modules written in C++ make of it

    monkeypatch.setattr(__main__, "app", break_off)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    try:
        answer = call("run")
    finally:
        signal.signal(signal.SIGINT, before)
    assert answer.code == 130 and answer.err.startswith("interrupted; ")
    stop_with(monkeypatch, ImportError("import numpy failed"))
    assert call("run").code == 70


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_bug_is_called_one_and_its_traceback_kept(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    stop_with(monkeypatch, ZeroDivisionError("planted"))
    answer = call("run")
    assert answer.code == 70
    assert "this is a bug" in answer.err and "Traceback" not in answer.err
    path = re.search(r"traceback: (.*)", answer.err)
    assert path and "ZeroDivisionError: planted" in Path(path[1]).read_text()
    assert "Traceback" in call("run", "-v").err


def test_a_missing_configuration_is_a_usage_error_that_names_init(
    call: Call, tmp_path: Path
) -> None:
    answer = call("run", "-c", tmp_path / "no.toml")
    assert answer.code == 2
    assert "QF101" in answer.err and "quantflow init" in answer.err


def test_a_misspelt_command_or_option_is_a_usage_error(call: Call) -> None:
    assert call("rnu").code == 2
    assert call("run", "--limit", "0").code == 2


@pytest.mark.parametrize("words", ["show nonsense", "run --limit 0", "rnu", "show plan --row 3"])
def test_usage_errors_are_json_too_where_that_is_asked_for(call: Call, words: str) -> None:
    answer = call(*words.split(), "--json")
    assert answer.code == 2 and answer.err == ""
    assert [problem["code"] for problem in answer.json["errors"]] == ["QF109"]
    plain = call(*words.split())
    assert plain.code == 2 and plain.out == "" and "Usage" in plain.err


def test_version(call: Call) -> None:
    assert call("--version").out.split() == ["quantflow", __version__]


def test_explain_lists_explains_and_suggests(call: Call) -> None:
    assert "QF203" in call("explain").out
    assert call("explain", "qf203").out.startswith("QF203 torch export failed")
    assert list(call("explain", "QF203", "--json").json) == ["QF203"]
    answer = call("explain", "QF2O3")
    assert answer.code == 2 and "QF203" in answer.err
    assert json.loads(call("explain", "QF2O3", "--json").out)["errors"][0]["code"] == "QF107"


@pytest.mark.parametrize("name", ["ENOTDIR", "EEXIST", "EISDIR"])
def test_a_file_where_a_folder_belongs_is_not_a_bug(
    call: Call, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    number = getattr(errno, name)
    stop_with(monkeypatch, OSError(number, os.strerror(number), "run/20_ranges.partial"))
    answer = call("run")
    assert answer.code == 3 and "where: run/20_ranges.partial" in answer.err
    assert "move what is in the way" in answer.err


def test_the_options_are_those_that_the_readme_names(call: Call) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    said = re.search(r"`run` and the commands of the stages take(.*?)Results go", readme, re.DOTALL)
    assert said is not None
    of_stages, of_results, of_all = said[1].split(";")
    named = [re.findall(r"`(-[\w-]+)", part) for part in (of_stages, of_results, of_all)]
    assert named == [["--set", "--dry-run", "--limit", "-q", "-v"], ["--run"], ["--json"]]
    helps = {name: call(name, "--help").out for name in ("run", "sweep", "show", "report", "init")}
    for name in ("run", "sweep"):
        assert all(option in helps[name] for option in named[0])
    for name in ("show", "report"):
        assert "--run" in helps[name] and "--set" not in helps[name]
    assert {name for name, text in helps.items() if "--json" not in text} == {"init"}


def test_a_full_disk_is_the_environments_fault_and_a_bug_is_not(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "run/x.json")
    odd = OSError("odd")
    answers = [(full, 3, "QF604"), (MemoryError(), 3, "QF607"), (odd, 70, "bug in quantflow")]
    for error, code, text in answers:
        monkeypatch.setattr("quantflow.__main__.app", Mock(side_effect=error))
        answer = call("run")
        assert answer.code == code and text in answer.err
    assert call("run", "--json").code == 70
