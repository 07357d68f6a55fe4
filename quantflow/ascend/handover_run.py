"""Converts the models of this folder with atc.

For every conversion in conversions.json it runs atc with exactly the arguments written there and
counts the model as converted only when the exit code, the success line and the .om file agree. It
writes logs/<name>.log and result.json, and goes on where it was interrupted: what was converted
from the same files with the same arguments, and is still there, is not converted again.

It ends with
    0 when every INT8 model was converted (of other kinds only where no INT8 model was asked for),
    2 when a name on the command line is not known, or a file is not the one in conversions.json,
    3 when atc was not found,
    4 when a conversion failed,
    130 when it was interrupted.

Travels with the hand-over folder, so: Python 3.7 and the standard library only.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from .at_once import at_once
from .convert_one import Judges, convert_one
from .error_places import error_places, node_finder
from .handover_files import changed_files, is_done, read_plan, read_rows, write_result
from .om_check import om_problem

HERE = Path(__file__).resolve().parent.parent
OK, USAGE, NO_ATC, FAILED, INTERRUPTED = 0, 2, 3, 4, 130


def main(words: list[str], here: Path = HERE) -> int:
    """Convert what the command line asks for; returns the exit code."""
    chosen = _options(words)
    plan = read_plan(here)
    entries: list[dict[str, Any]] = plan["conversions"]
    known = {name for entry in entries for name in (entry["name"], entry["bucket"]) if name}
    unknown = sorted(set(chosen.name) - known)
    if unknown:
        print(f"no such conversion: {', '.join(unknown)}; known: {', '.join(sorted(known))}")
        return USAGE
    wanted = [x for x in entries if not chosen.name or {x["name"], x["bucket"]} & set(chosen.name)]
    changed = sorted({name for entry in wanted for name in changed_files(here, entry)})
    if changed:
        print(f"not the files that conversions.json names: {', '.join(changed)}; copy them again")
        return USAGE
    earlier = {row["name"]: row for row in read_rows(here)}
    rows = {x["name"]: _row(x, plan, earlier.get(x["name"])) for x in entries}
    done = [
        x
        for x in wanted
        if not chosen.force and is_done(here, rows[x["name"]], plan["soc_version"])
    ]
    left = [x for x in wanted if x not in done]
    for entry in done:
        print(f"{entry['name']}: converted already, from the same files", flush=True)
    atc = find_atc(plan["atc"])
    for entry in left:
        reason = "atc not found" if atc is None else "not finished"
        rows[entry["name"]] = _row(entry, plan, reason=reason)
    if left and atc is None:
        print("atc was not found: source CANN's set_env.sh in this shell first")
    try:
        if atc is not None:
            _convert(here, plan, atc, left, rows, chosen.parallel)
        code = _exit_code([rows[x["name"]] for x in wanted], found=atc is not None or not left)
    except KeyboardInterrupt:
        print("interrupted: what is converted is kept")
        code = INTERRUPTED
    write_result(here, code, plan, list(rows.values()))
    _print_table(list(rows.values()))
    return code


def find_atc(name: str) -> str | None:
    """The configured atc; a path that only the other machine has falls back on PATH."""
    return shutil.which(name) or shutil.which("atc")


def _options(words: list[str]) -> argparse.Namespace:
    head, _, tail = (__doc__ or "").partition("\n\nIt ends")
    epilog = "It ends" + tail.partition("\n\nTravels")[0]
    parser = argparse.ArgumentParser(
        prog="convert.py",
        description=head,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="*", help="a bucket, or one conversion; all without")
    parser.add_argument("--parallel", type=_parallel, default=1, metavar="N", help="1 to 16")
    parser.add_argument("--force", action="store_true", help="convert what is converted, too")
    return parser.parse_args(words)


def _parallel(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 16:
        raise argparse.ArgumentTypeError("it is 1 to 16")
    return number


def _convert(
    here: Path,
    plan: dict[str, Any],
    atc: str,
    entries: list[dict[str, Any]],
    rows: dict[str, dict[str, Any]],
    parallel: int,
) -> None:
    """Convert, and write result.json after each one."""
    layers: dict[str, str] = plan["layers"]
    judges = Judges(
        partial(om_problem, soc_version=plan["soc_version"]),
        partial(error_places, layers=layers, onnx_node=node_finder(layers, plan["suffixes"])),
    )

    def work(
        entry: dict[str, Any], on_line: Callable[[str], None], stop: threading.Event
    ) -> dict[str, Any]:
        print(f"{entry['name']}:", atc, *entry["arguments"], flush=True)
        started = _now()
        result = convert_one(
            atc,
            entry["name"],
            entry["arguments"],
            folder=here,
            shown_folder="",
            timeout_s=plan["timeout_s"],
            judges=judges,
            on_line=on_line,
            stop=stop,
        )
        elsewhere = {
            "host": platform.node()[:200],
            "machine": platform.machine()[:200],
            "atc": atc[:1000],
            "started": started,
            "finished": _now(),
        }
        return dict(_row(entry, plan), elsewhere=elsewhere, **result._asdict())

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        for index, row in at_once(entries, work, parallel, lambda entry, line: None):
            rows[entries[index]["name"]] = row
            print(f"{row['name']}: {row['status']} {row['om'] or row['reason']}", flush=True)
            write_result(here, FAILED, plan, list(rows.values()))
    finally:
        signal.signal(signal.SIGTERM, before)


def _row(
    entry: dict[str, Any],
    plan: dict[str, Any],
    earlier: dict[str, Any] | None = None,
    reason: str = "not asked for yet",
) -> dict[str, Any]:
    """What is known of a conversion: an earlier result of the very same, else nothing."""
    row: dict[str, Any] = {
        "name": entry["name"],
        "bucket": entry["bucket"],
        "kind": entry["kind"],
        "status": "not-converted",
        "reason": reason,
        "command": [plan["atc"], *entry["arguments"]],
        "digest": entry["digest"],
        "om": None,
    }
    if earlier is not None and earlier.get("digest") == entry["digest"]:
        row.update(earlier)
    return row


def _exit_code(rows: list[dict[str, Any]], *, found: bool) -> int:
    counted = [row for row in rows if row["kind"] == "int8"] or rows
    if all(row["status"] == "converted" for row in counted):
        return OK
    return FAILED if found else NO_ATC


def _print_table(rows: list[dict[str, Any]]) -> None:
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        print(f"{row['name']:{width}}  {row['status']:13}  {row['om'] or row['reason']}")


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
