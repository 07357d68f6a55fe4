"""From the deploy models to .om files, or to the folder that makes them elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.om_record import Conversion, Finding, OmRecord, OmStatus, worst_status
from quantflow.ascend.convert_all import convert_all
from quantflow.ascend.convert_one import log_name, not_as_verified, set_aside
from quantflow.ascend.environment import environment_findings, find_atc
from quantflow.ascend.finished import remove_finished, take_finished
from quantflow.ascend.handover import SCRIPT, write_handover
from quantflow.ascend.manifest import write_manifest
from quantflow.ascend.planned import PROBES, PlannedConversion, wanted_conversions
from quantflow.ascend.preflight import bucket_findings, common_findings, is_int8
from quantflow.ascend.probes import write_probes
from quantflow.config import LoadedConfig
from quantflow.errors import Problem
from quantflow.progress import Progress, no_progress

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
    spare: Take = nothing_there,
    start_atc: bool = True,
) -> OmRecord:
    """Write the hand-over folder and, where atc is at hand, convert all models in it.

    A model counts as `converted` only after exit code, success line and .om file agreed. Without
    atc it is `not-converted`. One that preflight finds an error in is `refused`, and atc is not
    started. What an interrupted attempt finished is not done again. `manifest.json` says which
    files came of it.

    Args:
        loaded: the configuration.
        export: what stage 4 wrote.
        export_dir: where it wrote it.
        out_dir: the stage's folder; it exists.
        progress: told as conversions are done, with the last lines of atc.
        model: gives the layers that atc's messages are about; None where there is no record.
        take: gives what need not be converted again.
        spare: gives what is kept where converting it again fails.
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
    configured = loaded.config.atc.executable
    found: dict[str, Conversion] = {}
    left = list[PlannedConversion]()
    for plan in planned:
        own = list(_own_findings(loaded, plan, out_dir))
        findings += own
        there = take(plan, out_dir) or take_finished(plan, out_dir, loaded.config.target.chip)
        reason = _first_error([*common, *own])
        if there is not None:
            found[plan.name] = there
        elif reason:
            found[plan.name] = plan.came_to(configured, "refused", reason)
        elif executable is None:
            missing = ATC_NOT_FOUND if start_atc else "not among what was converted elsewhere"
            found[plan.name] = plan.came_to(configured, "not-converted", missing)
        else:
            left.append(plan)
    if executable is not None:
        found |= convert_all(loaded, left, executable, layers, out_dir, progress)
    checked = [_checked_again(found[plan.name], out_dir) for plan in planned]
    conversions = tuple(
        _or_former(conversion, plan, out_dir, spare) if plan in left else conversion
        for plan, conversion in zip(planned, checked, strict=True)
    )
    remove_finished(out_dir)
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


def _checked_again(conversion: Conversion, out_dir: Path) -> Conversion:
    """The conversion, failed where its file is not the one that was verified: others ran since."""
    if conversion.status == "converted":
        reason = not_as_verified(out_dir, conversion.om, conversion.size, conversion.sha256)
        if not reason:
            return conversion
        blank = {"om": None, "sha256": None, "size": None}
        conversion = conversion.model_copy(update={"status": "failed", "reason": reason, **blank})
    set_aside(out_dir / conversion.name)
    return conversion


def _or_former(
    conversion: Conversion, plan: PlannedConversion, out_dir: Path, spare: Take
) -> Conversion:
    """The conversion, or what was made of the same before where the new try failed."""
    if conversion.status != "failed":
        return conversion
    log, kept_log = out_dir / log_name(plan.name), out_dir / log_name(f"{plan.name}.failed")
    if log.is_file():  # the former one brings its own
        log.replace(kept_log)
    former = spare(plan, out_dir)
    if former is None:
        if kept_log.is_file():
            kept_log.replace(log)
        return conversion
    why = conversion.reason.replace(log_name(plan.name), log_name(f"{plan.name}.failed"))
    return former.model_copy(update={"reason": f"kept from before; the new try failed: {why}"})


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


def _first_error(findings: Sequence[Finding]) -> str:
    """The reason not to start atc, or empty."""
    errors = [finding for finding in findings if finding.level == "error"]
    if not errors:
        return ""
    more = f" (and {len(errors) - 1} more findings)" if len(errors) > 1 else ""
    return f"preflight: {errors[0].where}: {errors[0].what}{more}"
