"""From the deploy models to .om files, or to the folder that makes them elsewhere."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.om_record import Conversion, Finding, OmRecord, OmStatus, worst_status
from quantflow.ascend.at_once import at_once
from quantflow.ascend.convert_one import Judges, convert_one
from quantflow.ascend.environment import environment_findings, find_atc
from quantflow.ascend.error_places import error_places
from quantflow.ascend.handover import SCRIPT, write_handover
from quantflow.ascend.judge_om import om_file_problem
from quantflow.ascend.manifest import write_manifest
from quantflow.ascend.planned import PROBES, PlannedConversion, wanted_conversions
from quantflow.ascend.preflight import bucket_findings, common_findings, is_int8
from quantflow.ascend.probes import write_probes
from quantflow.config import LoadedConfig
from quantflow.errors import Problem
from quantflow.progress import DETAIL, Progress, no_progress
from quantflow.target.parser_renames import onnx_node

ATC_NOT_FOUND = "atc not found"

Take = Callable[[PlannedConversion, Path], Conversion | None]
"""What is there of a conversion already: its .om file is then put into the folder."""


def nothing_there(planned: PlannedConversion, folder: Path) -> Conversion | None:
    """Take nothing over."""
    return None


def convert(
    loaded: LoadedConfig,
    export: ExportRecord,
    export_dir: Path,
    out_dir: Path,
    progress: Progress = no_progress,
    *,
    model: ModelRecord | None = None,
    take: Take = nothing_there,
    start_atc: bool = True,
) -> OmRecord:
    """Write the hand-over folder and, where atc is at hand, convert all models in it.

    A model counts as `converted` only after exit code, success line and .om file agreed. Without
    atc it is `not-converted`. One that preflight finds an error in is `refused`, and atc is not
    started. `manifest.json` says which files came of it.

    Args:
        loaded: the configuration.
        export: what stage 4 wrote.
        export_dir: where it wrote it.
        out_dir: the stage's folder; it exists.
        progress: told as conversions are done, with the last lines of atc.
        model: gives the layers that atc's messages are about; None where there is no record.
        take: gives what need not be converted again.
        start_atc: false where only what `take` gives counts.

    Raises:
        QuantflowError: QF401 or QF402 when the files of stage 4 are not what its record says.
    """
    wanted = list(wanted_conversions(loaded.config.atc, export, export_dir, out_dir))
    if any(conversion.kind == "probe" for conversion in wanted):
        write_probes(out_dir / PROBES, loaded.config.target)
    planned, layers = write_handover(loaded, wanted, model, out_dir)
    executable = find_atc(loaded) if start_atc else None
    int8 = any(is_int8(bucket) for bucket in export.buckets)
    common = list(common_findings(loaded, int8=int8))
    findings = [*environment_findings(executable, os.environ), *common] if start_atc else common
    found: dict[str, Conversion] = {}
    left = list[PlannedConversion]()
    for plan in planned:
        own = list(_own_findings(loaded, plan, out_dir))
        findings += own
        there, reason = take(plan, out_dir), _first_error([*common, *own])
        if there is not None:
            found[plan.name] = there
        elif reason:
            found[plan.name] = _conversion(loaded, plan, "refused", reason)
        elif executable is None:
            missing = ATC_NOT_FOUND if start_atc else "not among what was converted elsewhere"
            found[plan.name] = _conversion(loaded, plan, "not-converted", missing)
        else:
            left.append(plan)
    if executable is not None:
        found |= _convert_all(loaded, left, executable, layers, out_dir, progress)
    conversions = tuple(found[plan.name] for plan in planned)
    write_manifest(loaded, export, export_dir, out_dir, conversions)
    return OmRecord(
        status=worst_status(conversions), findings=tuple(findings), conversions=conversions
    )


def problems(record: OmRecord) -> list[Problem]:
    """What keeps a record from being `converted`, as errors that carry the exit status.

    QF602 (exit 3) stands for an atc that is not there, QF701 (exit 4) for one that failed, QF111
    (exit 2) for a conversion that atc was not asked for. Only INT8 models count.
    """
    codes = {"failed": "QF701", "refused": "QF111"}
    order: tuple[OmStatus, ...] = ("failed", "refused")
    found = [
        Problem(
            codes[status],
            f"{conversion.name} was not converted: {conversion.reason}",
            where=" ".join(conversion.command),
        )
        for status in order
        for conversion in record.conversions
        if conversion.status == status and conversion.kind == "int8"
    ]
    if not found and record.status == "not-converted":
        fix = f"source CANN's set_env.sh, or run {SCRIPT} of that folder on a machine that has atc"
        found.append(Problem("QF602", "no .om file was made: atc was not found", "50_om", fix))
    return found


def _own_findings(loaded: LoadedConfig, plan: PlannedConversion, out_dir: Path) -> list[Finding]:
    """What preflight finds; only errors of a float twin, whose warnings are the deploy model's."""
    wanted = plan.wanted
    found = list(bucket_findings(loaded, wanted.files, out_dir, out_dir))
    if wanted.kind == "int8":
        return found
    found = [finding for finding in found if finding.level == "error"]
    if wanted.unkept:
        what = f"no file keeps these fp32 islands in fp32: {', '.join(wanted.unkept)}"
        found.append(Finding(level="warning", what=what, where=wanted.name))
    return found


def _convert_all(
    loaded: LoadedConfig,
    left: Sequence[PlannedConversion],
    executable: str,
    layers: dict[str, str],
    out_dir: Path,
    progress: Progress,
) -> dict[str, Conversion]:
    """Run atc for all that is left, `atc.parallel` at a time; by name."""
    judges = Judges(
        partial(om_file_problem, soc_version=loaded.config.target.chip),
        partial(error_places, layers=layers, onnx_node=partial(onnx_node, known=layers)),
    )

    def work(
        plan: PlannedConversion, on_line: Callable[[str], None], stop: threading.Event
    ) -> Conversion:
        on_line("starts")
        result = convert_one(
            executable,
            plan.name,
            plan.arguments,
            folder=out_dir,
            shown_folder="50_om/",
            timeout_s=loaded.config.atc.timeout_s,
            judges=judges,
            on_line=on_line,
            stop=stop,
        )
        blank = _conversion(loaded, plan, cast(OmStatus, result.status), result.reason)
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
        running.pop(left[index].name, None)
        done[conversion.name] = conversion
        tell()
    return done


def _conversion(
    loaded: LoadedConfig, plan: PlannedConversion, status: OmStatus, reason: str
) -> Conversion:
    return Conversion(
        name=plan.name,
        bucket=plan.wanted.bucket,
        kind=plan.wanted.kind,
        status=status,
        reason=reason,
        command=(loaded.config.atc.executable, *plan.arguments),
        digest=plan.digest,
    )


def _first_error(findings: Sequence[Finding]) -> str:
    """The reason not to start atc, or empty."""
    errors = [finding for finding in findings if finding.level == "error"]
    if not errors:
        return ""
    more = f" (and {len(errors) - 1} more findings)" if len(errors) > 1 else ""
    return f"preflight: {errors[0].where}: {errors[0].what}{more}"
