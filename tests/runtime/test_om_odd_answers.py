"""Modules that pass for acl and ais_bench and do what nobody expects: one coded error each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quantflow.errors import QuantflowError
from quantflow.printable import raised, shown
from quantflow.runtime.acl_model import AclModel
from quantflow.runtime.ais_bench_model import AisBenchModel
from quantflow.runtime.om_boundary import OmTensor, check_described
from quantflow.runtime.om_process import OmProcess
from tests.runtime.om_standins import FOLDER, put_on_path, standin_om
from tests.runtime.test_om_process import X

AIS = """
import os, sys, time
import numpy as np
class T:
    def __init__(self, name, kind, shape, size):
        self.name, self.datatype, self.shape, self.size = name, kind, shape, size
class Summary:
    exec_time_list = [1.0]
class Silent(Exception):
    def __str__(self): raise ValueError
class InferSession:
    def __init__(self, device, path): pass
    def get_inputs(self): return [T("x", "dtype.float32", [2, 4], 32)]
    def get_outputs(self): return [T("y", "dtype.float32", [2, 4], 32)]
    def infer(self, arrays, mode=None): return out()
    def summary(self): return Summary
def out(): return [np.zeros((2, 4), np.float32)]
def describe(*tensors): InferSession.get_outputs = lambda self: [T(*x) for x in tensors]
"""


def ais_bench(monkeypatch: pytest.MonkeyPatch, folder: Path, code: str) -> None:
    """Let `ais_bench` be this code."""
    put_on_path(monkeypatch)
    package = folder / "ais_bench" / "infer"
    package.mkdir(parents=True)
    for init in (package.parent, package):
        (init / "__init__.py").write_text("")
    (package / "interface.py").write_text(AIS + code)
    monkeypatch.syspath_prepend(folder)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise RuntimeError('boom\\x1b[31m')", r"QF620 .*RuntimeError: boom\\x1b\[31m"),
        ("def (", "QF620 .*SyntaxError"),
        ("raise Silent", "QF620 .*Silent: .its message cannot be read"),
        ("del InferSession", "QF620 .*InferSession"),
        ("out = lambda: [np.zeros((2, 5), np.float32)]", r"QF621 .*'y' as float32 \(2, 5\)"),
        ("out = lambda: [np.float32(3)]", r"QF621 .*float32 \(\)"),
        ("out = lambda: [np.zeros((2, 4), np.int32)]", "QF621 .*int32"),
        ("out = lambda: [np.zeros((2, 4), np.complex64)]", "QF621 .*complex64"),
        ("out = lambda: [[['a'] * 4] * 2]", "QF621 .*<U1"),
        ("out = lambda: np.zeros((2, 4), np.float32)", "QF621 .*2 outputs, not 1"),
        ("out = lambda: None", "QF621 .*NoneType"),
        ("out = lambda: ()", "QF621 .*0 outputs, not 1"),
        ("out = lambda: [[[1], [1, 2]]]", "QF621 .*ValueError"),
        ("def out(): raise Silent", "QF621 .*Silent"),
        ("def out(): return out()", "QF621 .*RecursionError"),
        ("Summary.exec_time_list = []", "QF621 .*IndexError"),
        ("Summary.exec_time_list = ['soon']", "QF621 .*soon"),
        ("describe((None, 'dtype.float32', [2, 4], 32))", "QF621 .*None"),
        ("describe(('y', 'dtype.float32', None, 32))", "QF621 .*NoneType"),
        ("describe()", "QF211 its outputs are none"),
        (
            "describe(*[('y', 'dtype.float32', [2, 4], 32)] * 2)",
            "QF211 its outputs are none",
        ),
        ("describe(('y', 'dtype.complex64', [2, 4], 64))", "QF211 .*complex64"),
        ("describe(('y', 'dtype.object', [2, 4], 64))", "QF211 .*object"),
        ("describe(('\\x1b[31my', 'dtype.float32', [2, 4], 8))", r"QF211 '\\x1b\[31my' has 8"),
        ("describe(('y', 'dtype.float32', [1 << 40, 1 << 40], 1 << 90))", "QF211 .*bytes"),
        ("describe(('y', 'dtype.float32', [1] * 99, 4))", "QF211 .*1, 1"),
    ],
)
def test_what_ais_bench_says_is_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str, said: str
) -> None:
    ais_bench(monkeypatch, tmp_path, code)
    with pytest.raises(QuantflowError, match=said) as caught:  # noqa: SIM117
        with AisBenchModel("net.om") as model:
            model.run({"x": X})
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise RuntimeError('boom')", "QF620 .*boom"),
        ("", "QF621 acl.init is not in this version"),
        ("def init(): raise TypeError('x')", "QF621 acl.init raised TypeError: x"),
        ("def init(): return None", "QF621 acl.init returned the code None"),
        ("def init(): return ()", r"QF621 acl.init returned the code \(\)"),
        ("import numpy\ndef init(): return numpy.zeros(3)", "QF621 acl.init returned the code"),
        ("class R:\n def __repr__(self): 1 / 0\ndef init(): return R()", "QF621 .* of type R"),
    ],
)
def test_what_acl_says_is_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str, said: str
) -> None:
    put_on_path(monkeypatch)
    (tmp_path / "acl.py").write_text(code + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(QuantflowError, match=said):
        AclModel("net.om")


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("get_num_outputs", None, "QF621 .*get_num_outputs gave None"),
        ("get_num_outputs", 10**12, "QF211 it has 1000000000000 outputs"),
        ("get_output_name_by_index", None, "QF621 .*gave None"),
        ("get_output_data_type", [1], r"QF621 .*gave \[1\]"),
        ("get_output_dims", ({}, 0), r"QF621 .*get_output_dims gave \{\}"),
        ("get_output_dims", (None, 0), "QF621 .*get_output_dims gave None"),
        ("get_output_dims", ({"dims": [1 << 40, 1 << 40]}, 0), "QF211 .*bytes"),
        ("get_output_size_by_index", "many", "QF621 .*gave 'many'"),
    ],
)
def test_what_acl_describes_is_checked_and_nothing_leaks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, answer: object, said: str
) -> None:
    put_on_path(monkeypatch)
    import acl  # type: ignore[import-not-found]

    tensor = ["x", "float32", [2, 4]]
    om = standin_om().write_om(tmp_path / "net.om", inputs=[tensor], outputs=[tensor])
    monkeypatch.setattr(acl.mdl, name, lambda *_: answer)
    with pytest.raises(QuantflowError, match=said):
        AclModel(str(om))
    assert acl.left() == {}


@pytest.mark.parametrize("code", ["sys.exit(7)", "raise KeyboardInterrupt"])
def test_what_ends_the_process_from_within_is_one_coded_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    ais_bench(monkeypatch, tmp_path, code)
    with pytest.raises(QuantflowError, match=r"QF621 (SystemExit|KeyboardInterrupt).* ended the"):
        OmProcess("net.om", "ais_bench")
    assert "Traceback" not in capfd.readouterr().err


HANGS = """
import signal
import sys
import numpy as np
from quantflow.runtime.om_process import OmProcess
if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whatever started the tests, nohup for one
    model = OmProcess(sys.argv[1], "acl")
    print(model._process.pid, flush=True)
    model.run({"x": np.zeros((2, 4), np.float32)})
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_the_process_ends_with_the_one_that_started_it_also_while_a_call_runs(
    tmp_path: Path, number: signal.Signals
) -> None:
    content = {
        "inputs": [["x", "float32", [2, 4]]],
        "outputs": [["y", "float32", [2, 4]]],
        "sleep_ms": 60_000,
    }
    script = tmp_path / "hangs.py"
    script.write_text(HANGS)
    sys.path.insert(0, str(FOLDER))
    try:
        om = standin_om().write_om(tmp_path / "net.om", **content)
    finally:
        sys.path.remove(str(FOLDER))
    path = os.pathsep.join([str(FOLDER), str(Path(__file__).parents[2])])
    parent = subprocess.Popen(
        [sys.executable, str(script), str(om)],
        env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    time.sleep(0.3)  # into the call
    parent.send_signal(number)
    assert parent.wait(10) == -number
    parent.stdout.close()
    end = time.monotonic() + 10
    while alive(child) and time.monotonic() < end:
        time.sleep(0.05)
    assert not alive(child)


def alive(process: int) -> bool:
    """Whether it runs; one that has ended and that nobody asked about does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_more_than_there_is_memory_is_refused_over_all_tensors_together() -> None:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    half = memory * 6 // 10
    tensors = [OmTensor(name, "int8", (half,), half) for name in "ab"]
    check_described(tensors[:1], [OmTensor("y", "int8", (8,), 8)], "net.om")
    with pytest.raises(QuantflowError, match="QF211"):
        check_described(tensors[:1], tensors[1:], "net.om")


def test_what_cannot_be_printed_is_told_by_its_type() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

        __repr__ = __str__

    assert raised(Mute()) == "Mute: (its message cannot be read)"
    assert shown(Mute()) == "a value of type Mute"
    assert raised(KeyError()) == "KeyError" and raised(ValueError("\x1b")) == "ValueError: \\x1b"
    assert len(shown("x" * 10_000)) <= 200 and json.loads(json.dumps(shown([1]))) == "[1]"
