"""A stand-in for atc, and .om files written from the documented layout."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path


def length_delimited(number: int, content: bytes) -> bytes:
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def model_def(soc_version: str | None) -> bytes:
    """ModelDef {name, version, attr {"atc_version": ..., "soc_version": ...}}."""
    message = length_delimited(1, b"net") + bytes([2 << 3, 7])
    values = {"atc_version": "8.5", "soc_version": soc_version}
    for key, text in values.items():
        if text is not None:
            attribute = length_delimited(2, text.encode())
            entry = length_delimited(1, key.encode()) + length_delimited(2, attribute)
            message += length_delimited(11, entry)
    return message


def om_bytes(
    soc_version: str | None = "Ascend310P3", *, legacy: bool = False, encrypted: bool = False
) -> bytes:
    """A header of 256 bytes, a table of two partitions (weights first), the partitions."""
    weights, definition = b"\x07" * 64, model_def(soc_version)
    if legacy:
        table = struct.pack("<I", 2)
        table += struct.pack("<III", 1, 0, 64) + struct.pack("<III", 0, 64, len(definition))
    else:
        table = struct.pack("<I4x", 2)
        table += struct.pack("<I4xQQ", 1, 0, 64) + struct.pack("<I4xQQ", 0, 64, len(definition))
    body = table + weights + definition
    header = bytearray(256)
    struct.pack_into("<4sII", header, 0, b"IMOD", 256, 0x10000001)
    struct.pack_into("<I", header, 76, len(body) if legacy else 0)
    header[80] = encrypted
    header[84:87] = b"net"
    struct.pack_into("<I", header, 156, 1)
    header[160:163] = b"3.0"
    struct.pack_into("<Q", header, 184, 0 if legacy else len(body))
    return bytes(header) + body


SCRIPT = """#!{python}
import json, os, signal, subprocess, sys, time
arguments = dict(word[2:].split("=", 1) for word in sys.argv[1:])
own = "seen_arguments.json.%d" % os.getpid()  # several may run at once
with open(own, "w") as file:
    json.dump(sys.argv[1:], file)
os.replace(own, "seen_arguments.json")
with open("seen_outputs.txt", "a") as file:
    file.write(arguments["output"] + "\\n")
mode = {mode!r}
if mode == "fp16-fails":
    mode = "refused" if arguments["output"].endswith("_fp16") else "good"
elif mode == "fp16-hangs":
    mode = "hangs" if arguments["output"].endswith("_fp16") else "good"
elif mode == "one-fails":
    mode = "refused" if arguments["output"] == "batch1" else "good"
print("ATC start working now, please wait for a moment.", flush=True)
success = "ATC run success, welcome to the next use."
failure = "ATC run failed, Please check the detail log, try 'atc --help' for more information"
def write(content, suffix=".om"):
    open(arguments["output"] + suffix, "wb").write(content)
om = {om!r}
if mode == "good":
    write(om); print(success)
elif mode == "good-linux":
    write(om, "_linux_x86_64.om"); print(success)
elif mode == "good-aarch64":
    write(om, "_linux_aarch64.om"); print(success)
elif mode == "encrypted":
    write({encrypted!r}); print(success)
elif mode == "version":
    print("[INFO] ATC tool version : 7.7.7"); write(om); print(success)
elif mode == "meets":  # the others are running, too
    open(arguments["output"] + ".here", "w").close()
    end = time.time() + 20
    wanted = int(os.environ["MEET"])
    while len([x for x in os.listdir(".") if x.endswith(".here")]) < wanted and time.time() < end:
        time.sleep(0.02)
    met = len([x for x in os.listdir(".") if x.endswith(".here")])
    write(om); print("met", met); print(success)
elif mode == "killed":
    write(om); print(success, flush=True); os.kill(os.getpid(), 9)
elif mode == "names-a-node":
    print("[INFO] compiling dequant")
    print("E20001: [PID: 1] Failed to compile op[dequant,AscendDequant], node: 'norm'.")
    print("        TraceBack (most recent call last):")
    print("        Optype [MatMulV2] name [fc_MatMulV2] failed"); print(failure); sys.exit(255)
elif mode == "no-code":
    print("atc.bin: error while loading shared libraries: libge.so: cannot open shared object file")
    sys.exit(127)
elif mode == "colours":
    print("\x1b[31mworking\x1b[0m \x07on it"); write(om); print(success)
elif mode == "floods":
    for _ in range(2000):
        print("x" * 200)
    print("y" * 300000); write(om); print(success)
elif mode == "success-but-exit-1":
    write(om); print(success); sys.exit(1)
elif mode == "exit-0-but-silent":
    write(om)
elif mode == "no-file":
    print(success)
elif mode == "truncated":
    write(om[:-10]); print(success)
elif mode == "empty":
    write(b""); print(success)
elif mode == "not-an-om":
    write(b"PK" + om[2:]); print(success)
elif mode == "other-chip":
    write({other!r}); print(success)
elif mode == "no-chip-named":
    write({unnamed!r}); print(success)
elif mode == "overwrites":  # the file of a run before
    write(om); print(success)
    if arguments["output"] == "batch8":
        open("batch1.om", "wb").write({unnamed!r})
elif mode == "changes-a-model":
    write(om); print(success)
    open("deploy_batch8.onnx", "ab").write(b"x")
elif mode == "deletes-models":
    write(om); print(success)
    for name in os.listdir("."):
        if name.endswith(".onnx"):
            os.unlink(name)
elif mode == "link":
    open("../outside.om", "wb").write(om); os.symlink("../outside.om", arguments["output"] + ".om")
    print(success)
elif mode == "refused":
    print("E10001: [PID: 1] Value [x] for parameter [--log] is invalid."); print(failure)
    sys.exit(255)
elif mode in ("hangs", "stubborn"):
    write(om[:100])
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the child inherits it
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    open("child.pid", "w").write(str(child.pid))
    with open("children.txt", "a") as file:
        file.write(str(child.pid) + "\\n")
    time.sleep(60)
elif mode == "leaves-a-child":
    write(om)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    open("child.pid", "w").write(str(child.pid)); print(success)
"""


def install(directory: Path, mode: str, name: str = "atc") -> Path:
    """Write an executable that behaves like atc does, or does not."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    text = SCRIPT.format(
        python=sys.executable,
        mode=mode,
        om=om_bytes(),
        other=om_bytes("Ascend910B4"),
        unnamed=om_bytes(None),
        encrypted=om_bytes("Ascend910B4", encrypted=True),
    )
    path.write_text(text)
    path.chmod(0o755)
    return path


def run_script(
    folder: Path,
    path: Path | None,
    *words: str,
    python: str = sys.executable,
    cwd: Path = Path("/"),
    **more: str,
) -> subprocess.CompletedProcess[str]:
    """Run `convert.py` with nothing in the environment but PATH."""
    return subprocess.run(
        [python, str(folder / "convert.py"), *words],
        env={"PATH": str(path or ""), **more},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def process_is_gone(pid: int) -> bool:
    """Gone or a zombie that its adoptive parent has not collected."""
    for _ in range(50):
        try:
            status = Path(f"/proc/{pid}/stat").read_text()
        except FileNotFoundError:
            return True
        if status.rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.1)
    return False


def send(children: Path, signals: list[signal.Signals]) -> None:
    """Signals to this process, once atc has started its child, and then a second apart."""

    def work() -> None:
        while not (children.exists() and children.read_text().endswith("\n")):
            time.sleep(0.05)
        for number in signals:
            os.kill(os.getpid(), number)
            time.sleep(1)

    threading.Thread(target=work, daemon=True).start()
