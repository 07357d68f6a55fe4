"""An .om in a process of its own, by either backend; stand-ins compute what the device would."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from quantflow.errors import QuantflowError
from quantflow.runtime.ais_bench_model import AisBenchModel
from quantflow.runtime.om_boundary import OmTensor, check_described, in_order
from quantflow.runtime.om_model import OmBackend, installed_backends, om_backend
from quantflow.runtime.om_process import OmProcess
from tests.runtime.om_standins import put_on_path, standin_om

X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


@pytest.fixture
def om(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    put_on_path(monkeypatch)
    inputs, outputs = [["x", "float32", [2, 4]]], [["y", "float16", [2, 4]]]
    return str(standin_om().write_om(tmp_path / "net.om", inputs=inputs, outputs=outputs))


@pytest.mark.parametrize(
    ("backend", "device"),
    [("acl", "Ascend310P3, device 3"), ("ais_bench", "device 3, as ais_bench says")],
)
def test_two_models_take_turns(
    om: str, capfd: pytest.CaptureFixture[str], backend: OmBackend, device: str
) -> None:
    with OmProcess(om, backend, 3) as one, OmProcess(om, backend, 3) as two:
        for factor in (1, 2):
            for model in (one, two):
                found = model.run({"x": X * np.float32(factor)})
                assert found["y"].dtype == np.float16
                np.testing.assert_array_equal(found["y"], (2 * factor * X).astype(np.float16))
        assert one.device == device and one.outputs == ("y",)
        assert one.inputs == (OmTensor("x", "float32", (2, 4), 32),)
        assert one.described == (OmTensor("y", "float16", (2, 4), 16),)
        assert one.last_ms >= 0
        processes = [model._process for model in (one, two)]  # pyright: ignore[reportPrivateUsage]
    assert [process.exitcode for process in processes] == [0, 0]
    assert capfd.readouterr().out == ""  # what the runtime prints is no result


def test_a_failure_over_there_is_the_same_error_here(
    om: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_ACL_FAIL", "mdl.execute,rt.free")
    with OmProcess(om, "acl") as model:
        with pytest.raises(
            QuantflowError, match=r"QF621 acl\.mdl\.execute returned the code 507899"
        ):
            model.run({"x": X})
        with pytest.raises(QuantflowError, match="QF621 the process that ran the model ended"):
            model.run({"x": X})
    with OmProcess(om, "acl") as model, pytest.raises(QuantflowError, match="QF211"):
        model.run({"x": X[:1]})


def test_a_process_that_crashes_is_one_coded_error(
    om: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_ACL_CRASH", "1")
    with pytest.raises(QuantflowError, match=r"QF621 .* ended with status -6"):
        OmProcess(om, "acl")


@pytest.mark.parametrize(("pairs", "expected"), [("", 1.25), ("1", 1.5)])
def test_ais_bench_tells_milliseconds_or_start_and_end(
    om: str, monkeypatch: pytest.MonkeyPatch, pairs: str, expected: float
) -> None:
    monkeypatch.setenv("STANDIN_AIS_PAIRS", pairs)
    with AisBenchModel(om) as model:
        np.testing.assert_array_equal(model.run({"x": X})["y"], (2 * X).astype(np.float16))
        assert model.last_ms == expected


@pytest.mark.parametrize("call", ["InferSession", "get_inputs", "infer", "free_resource"])
def test_what_ais_bench_raises_is_one_coded_error_and_the_session_is_given_up(
    om: str, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.setenv("STANDIN_AIS_FAIL", call)
    with pytest.raises(QuantflowError, match=f"QF621 .*{call} failed on the device"):  # noqa: SIM117
        with AisBenchModel(om) as model:
            model.run({"x": X})
    from ais_bench.infer.interface import InferSession  # type: ignore[import-not-found]

    assert InferSession.open == 0


def test_the_backend_is_pyacl_where_there_is_one(
    om: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert installed_backends() == ["acl", "ais_bench"] and om_backend() == "acl"
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    with pytest.raises(QuantflowError) as caught:
        om_backend()
    (problem,) = caught.value.problems
    assert caught.value.exit_code == 3 and problem.code == "QF620"
    assert "set_env.sh" in problem.fix and "ais_bench" in problem.fix
    assert "no .om file was run or measured" in problem.what


def test_a_backend_that_is_there_and_broken_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "acl.py").write_text("raise ImportError('libascendcl.so: cannot open')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(QuantflowError, match=r"QF620 acl cannot .* libascendcl\.so"):
        OmProcess(os.devnull, "acl")


def test_a_buffer_may_be_larger_than_an_output_and_not_smaller() -> None:
    fine = OmTensor("y", "float32", (2, 3), 32)
    check_described([fine], [fine], "net.om")
    with pytest.raises(QuantflowError, match="QF211"):
        check_described([fine], [OmTensor("y", "float32", (2, 3), 23)], "net.om")
    scalar = OmTensor("s", "float32", (), 4)
    (array,) = in_order({"s": np.array(3, np.float32)}, [scalar], "net.om")
    assert array.shape == () and array == 3
    with pytest.raises(QuantflowError, match="takes 32 bytes, not 24"):
        in_order({"y": np.zeros((2, 3), np.float32)}, [OmTensor("y", "float32", (2, 3), 32)], "m")
