#!/usr/bin/env python3
"""Converts the models of this folder with atc. Needs Python 3.7 or later and nothing else.

Usage: source CANN's set_env.sh, then run `python3 convert.py [bucket ...]`.

For every bucket in conversions.json it runs atc with exactly the arguments written there and counts
the model as converted only when the exit code, the success line and the .om file agree. It writes
logs/<bucket>.log and result.json, and ends with
    0 when every model was converted,
    2 when a bucket on the command line is not known,
    3 when atc was not found,
    4 when a conversion failed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SUCCESS_LINE = "ATC run success"
OM_SUFFIXES = (".om", "_linux_x86_64.om", "_linux_aarch64.om")
HEADER_SIZE = 256
CODE = r"\bE[0-9A-Z][0-9]{4}\b"


def main(names: list[str]) -> int:
    plan = json.loads((HERE / "conversions.json").read_text(encoding="utf-8"))
    known = [entry["bucket"] for entry in plan["conversions"]]
    unknown = sorted(set(names) - set(known))
    if unknown:
        print(f"no such bucket: {', '.join(unknown)}; known: {', '.join(known)}")
        return 2
    atc = find_atc(plan["atc"])
    if atc is None:
        print("atc was not found: source CANN's set_env.sh in this shell first")
    rows = [
        convert(plan, atc, entry)
        for entry in plan["conversions"]
        if not names or entry["bucket"] in names
    ]
    status = 3 if atc is None else 0 if all(row["om"] for row in rows) else 4
    text = json.dumps({"exit_code": status, "conversions": rows}, indent=1, sort_keys=True)
    (HERE / "result.json").write_text(text + "\n", encoding="utf-8")
    print_table(rows)
    return status


def find_atc(name: str) -> str | None:
    """The configured atc; a path that only the other machine has falls back on PATH."""
    return shutil.which(name) or shutil.which("atc")


def convert(plan: dict[str, Any], atc: str | None, entry: dict[str, Any]) -> dict[str, Any]:
    row = {"bucket": entry["bucket"], "status": "not-converted", "reason": "", "om": None}
    if atc is None:
        row["reason"] = "atc not found"
        return row
    candidates = [HERE / (entry["bucket"] + suffix) for suffix in OM_SUFFIXES]
    remove(candidates)  # one that lies here already says nothing about this run
    print(entry["bucket"] + ":", atc, *entry["arguments"], flush=True)
    try:
        reason, said, codes = run(plan, atc, entry)
    except BaseException:
        remove(candidates)
        raise
    found = [path for path in candidates if path.is_file()]
    if not reason:
        reason = om_problem(found[0], plan["soc_version"]) if found else "atc wrote no .om file"
    if not reason:
        row["status"], row["om"] = "converted", found[0].name
        return row
    for path in found:
        path.replace(path.with_name(path.name + ".rejected"))
    hints = [f"{code}: {plan['hints'].get(code, 'no hint')}" for code in codes]
    log = f"log: {log_path(entry)}"
    row["status"], row["reason"] = "failed", "; ".join(filter(None, [reason, said, *hints, log]))
    return row


def log_path(entry: dict[str, Any]) -> Path:
    return HERE / "logs" / (entry["bucket"] + ".log")


def run(plan: dict[str, Any], atc: str, entry: dict[str, Any]) -> tuple[str, str, list[str]]:
    """Runs atc; returns what is wrong, if anything, its first error line and its error codes."""
    path = log_path(entry)
    path.parent.mkdir(exist_ok=True)
    expired = False
    with path.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [atc, *entry["arguments"]],
            cwd=str(HERE),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(plan["timeout_s"])
        except subprocess.TimeoutExpired:
            expired = True
        finally:
            end_group(process)
    text = path.read_text(encoding="utf-8", errors="replace")
    codes = list(dict.fromkeys(re.findall(CODE, text)))
    errors = (line for line in text.splitlines() if re.search(CODE + r"|(?i:\berror\b)", line))
    first = next(errors, "").strip()[:300]
    said = f"atc said {first!r}" if first else ""
    if expired:
        return f"atc took longer than {plan['timeout_s']} s and was ended", said, codes
    if process.returncode != 0:
        return f"atc ended with exit code {process.returncode}", said, codes
    if SUCCESS_LINE not in text:
        return "atc ended with exit code 0 but never announced success", said, codes
    return "", said, codes


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends what is left of atc and its children."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        process.poll()
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)


def om_problem(path: Path, soc_version: str) -> str:
    """What is wrong with an .om file, or an empty string."""
    data = path.read_bytes()
    if len(data) < HEADER_SIZE:
        return "the .om file is shorter than its header"
    magic, header_size = struct.unpack_from("<4sI", data, 0)
    if magic != b"IMOD" or header_size != HEADER_SIZE:
        return "the .om file does not start like one"
    (length,) = struct.unpack_from("<Q", data, 184)
    if length == 0:
        (length,) = struct.unpack_from("<I", data, 76)
    if length != len(data) - HEADER_SIZE:
        return f"the .om file is not complete: {len(data) - HEADER_SIZE} of {length} bytes"
    # AttrDef of the map entry "soc_version": field 2 of the entry holds field 2, the text.
    found = None if data[80] == 1 else re.search(rb"\x0a\x0bsoc_version\x12.\x12(.)", data, re.S)
    if found:
        text = data[found.end() : found.end() + found.group(1)[0]].decode("utf-8", "replace")
        if text.lower() != soc_version.lower():
            return f"the .om file is for {text}, not {soc_version}"
    return ""


def remove(paths: list[Path]) -> None:
    for path in paths:
        if path.is_file():
            path.unlink()


def print_table(rows: list[dict[str, Any]]) -> None:
    width = max(len(row["bucket"]) for row in rows)
    for row in rows:
        print(f"{row['bucket']:{width}}  {row['status']:13}  {row['om'] or row['reason']}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
