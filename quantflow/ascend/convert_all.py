"""Runs atc for models of the hand-over folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

from quantflow.artifacts.om_record import Conversion, OmStatus
from quantflow.ascend.at_once import at_once
from quantflow.ascend.convert_one import Judges, convert_one
from quantflow.ascend.error_places import error_places
from quantflow.ascend.finished import put_aside
from quantflow.ascend.interrupts import Stop
from quantflow.ascend.judge_om import om_file_problem
from quantflow.ascend.planned import PlannedConversion
from quantflow.config import LoadedConfig
from quantflow.progress import DETAIL, Progress
from quantflow.target.parser_renames import onnx_node


def convert_all(
    loaded: LoadedConfig,
    left: Sequence[PlannedConversion],
    executable: str,
    layers: dict[str, str],
    out_dir: Path,
    progress: Progress,
) -> dict[str, Conversion]:
    """Run atc for all that is left, `atc.parallel` at a time; what is done outlives a kill.

    Args:
        loaded: the configuration.
        left: what is to be converted.
        executable: path of atc.
        layers: of every node, see `planned.node_layers`.
        out_dir: the hand-over folder.
        progress: told as conversions are done, with the last lines of atc.

    Returns:
        What came of each, by name.
    """
    judges = Judges(
        partial(om_file_problem, soc_version=loaded.config.target.chip),
        partial(error_places, layers=layers, onnx_node=partial(onnx_node, known=layers)),
    )

    def work(plan: PlannedConversion, on_line: Callable[[str], None], stop: Stop) -> Conversion:
        on_line("starts")
        result = convert_one(
            executable,
            plan.name,
            plan.arguments,
            files=plan.digests,
            folder=out_dir,
            shown_folder="50_om/",
            timeout_s=loaded.config.atc.timeout_s,
            judges=judges,
            on_line=on_line,
            stop=stop,
        )
        blank = plan.came_to(loaded.config.atc.executable, cast(OmStatus, result.status))
        return blank.model_copy(update=result._asdict())

    running: dict[str, str] = {}
    done: dict[str, Conversion] = {}

    def tell() -> None:
        width = 120 // max(len(running), 1)
        lines = "; ".join(f"{name}: {line}"[:width] for name, line in sorted(running.items()))
        progress(f"converting{DETAIL}{lines}" if lines else "converting", len(done), len(left))

    def on_line(plan: PlannedConversion, line: str) -> None:
        if line.strip():
            running[plan.name] = line.strip()
            tell()

    tell()
    for index, conversion in at_once(left, work, loaded.config.atc.parallel, on_line):
        put_aside(conversion, out_dir)
        running.pop(left[index].name, None)
        done[conversion.name] = conversion
        tell()
    return done
