"""Converts the models of this folder with atc.

For every conversion in conversions.json it runs atc with exactly the arguments written there and
counts the model as converted only when the exit code, the success line and the .om file agree. It
writes logs/<name>.log and result.json, and goes on where it was interrupted: what was converted
from the same files with the same arguments, and is still there, is not converted again.

It ends with
    0 when every INT8 model was converted (of other kinds only where no INT8 model was asked for),
    2 when a name on the command line is not known, a file is not the one in conversions.json,
      another convert.py works in this folder, or nothing can be read from or written to it,
    3 when atc was not found,
    4 when a conversion failed,
    130 when it was interrupted.

Travels with the hand-over folder, so: Python 3.7 and the standard library only.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from .handover_convert import FAILED, blank_row, check_again, convert_all, find_atc
from .handover_files import kept, locked, read_rows, write_result
from .handover_plan import Unusable, read_plan
from .handover_told import Told, last_line, shown
from .om_check import changed_files

HERE = Path(__file__).resolve().parent.parent
OK, USAGE, NO_ATC, INTERRUPTED = 0, 2, 3, 130


def main(words: list[str], here: Path = HERE) -> int:
    """Convert what the command line asks for; returns the exit code."""
    chosen = _options(words)
    if hasattr(sys.stdout, "reconfigure"):  # names may have letters that the terminal has not
        sys.stdout.reconfigure(errors="backslashreplace")  # pyright: ignore
    try:
        with locked(here):
            return _run(chosen, here)
    except Unusable as error:
        print(shown(str(error)))
    except OSError as error:
        print(shown(f"{error.filename or here}: {error.strerror or error}"))
    except KeyboardInterrupt:
        print("interrupted: what is converted is kept")
        return INTERRUPTED
    return USAGE


def _run(chosen: argparse.Namespace, here: Path) -> int:
    plan = read_plan(here)
    entries: list[dict[str, Any]] = plan["conversions"]
    known = {name for entry in entries for name in (entry["name"], entry["bucket"]) if name}
    unknown = sorted(set(chosen.name) - known)
    if unknown:
        raise Unusable(
            f"no such conversion: {', '.join(unknown)}; known: {', '.join(sorted(known))}"
        )
    wanted = [x for x in entries if not chosen.name or {x["name"], x["bucket"]} & set(chosen.name)]
    changed = sorted({name for entry in wanted for name in changed_files(here, entry["files"])})
    if changed:
        names = ", ".join(changed)
        raise Unusable(f"not the files that conversions.json names: {names}; copy them again")
    earlier, chip = read_rows(here), plan["soc_version"]
    rows = {
        x["name"]: dict(blank_row(x, plan), **kept(here, x, earlier.get(x["name"]), chip))
        for x in entries
    }
    told = Told()
    left: list[dict[str, Any]] = []
    atc = find_atc(plan["atc"])
    for entry in wanted:
        if rows[entry["name"]]["status"] == "converted" and not chosen.force:
            told.row(rows[entry["name"]], " already, from the same files")
            continue
        left.append(entry)
        rows[entry["name"]] = blank_row(
            entry, plan, "atc not found" if atc is None else "not finished"
        )
    if left and atc is None:
        print("atc was not found: source CANN's set_env.sh in this shell first")
    write_result(here, FAILED, plan, list(rows.values()))  # atc is not started where this fails
    interrupted = False
    try:
        if atc is not None:
            convert_all(here, plan, atc, left, rows, chosen.parallel, told)
    except KeyboardInterrupt:
        interrupted = True
    check_again(here, rows, left if atc is not None else [])
    asked = [rows[x["name"]] for x in wanted]
    code = INTERRUPTED
    if not interrupted:
        code = _exit_code(asked, found=atc is not None or not left)
    write_result(here, code, plan, list(rows.values()))
    told.rest(list(rows.values()))
    if interrupted:
        print("interrupted: what is converted is kept")
    print(last_line(asked))
    return code


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


def _exit_code(rows: list[dict[str, Any]], *, found: bool) -> int:
    counted = [row for row in rows if row["kind"] == "int8"] or rows
    if all(row["status"] == "converted" for row in counted):
        return OK
    return FAILED if found else NO_ATC
