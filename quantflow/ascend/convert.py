"""From the deploy models to .om files, or to the folder that makes them elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.om_record import Conversion, Finding, OmRecord, OmStatus
from quantflow.ascend.environment import environment_findings, find_atc
from quantflow.ascend.handover import SCRIPT, PlannedConversion, write_handover
from quantflow.ascend.preflight import bucket_findings, common_findings, is_int8
from quantflow.ascend.run_atc import find_om, judge, om_candidates, run_atc
from quantflow.config import LoadedConfig
from quantflow.errors import Problem
from quantflow.progress import Progress, no_progress

ATC_NOT_FOUND = "atc not found"
_WORST_FIRST: tuple[OmStatus, ...] = ("failed", "refused", "not-converted", "converted")


def convert(
    loaded: LoadedConfig,
    export: ExportRecord,
    export_dir: Path,
    out_dir: Path,
    progress: Progress = no_progress,
) -> OmRecord:
    """Write the hand-over folder and, where atc is at hand, convert every bucket in it.

    A bucket counts as `converted` only after `run_atc.judge` agreed. Without atc it is
    `not-converted`. One that preflight finds an error in is `refused`, and atc is not started.

    Args:
        loaded: the configuration.
        export: what stage 4 wrote.
        export_dir: where it wrote it.
        out_dir: the stage's folder; it exists.
        progress: told as buckets are done, with atc's last line of output.

    Raises:
        QuantflowError: QF401 or QF402 when the files of stage 4 are not what its record says.
    """
    planned = write_handover(loaded, export, export_dir, out_dir)
    executable = find_atc(loaded)
    int8 = any(is_int8(bucket) for bucket in export.buckets)
    common = list(common_findings(loaded, int8=int8))
    findings = [*environment_findings(executable, os.environ), *common]
    conversions: list[Conversion] = []
    for done, (bucket, plan) in enumerate(zip(export.buckets, planned, strict=True)):
        progress(f"converting {bucket.name}", done, len(planned))
        own = list(bucket_findings(loaded, bucket, export_dir, out_dir))
        findings += own
        reason = _first_error([*common, *own])
        if reason:
            status: OmStatus = "refused"
            om = None
        elif executable is None:
            status, reason, om = "not-converted", ATC_NOT_FOUND, None
        else:
            log = partial(_log_line, progress, bucket.name, done, len(planned))
            status, reason, om = _convert_one(loaded, plan, executable, out_dir, log)
        command = (loaded.config.atc.executable, *plan.arguments)
        conversions.append(
            Conversion(bucket=bucket.name, status=status, reason=reason, command=command, om=om)
        )
    progress("converting", len(planned), len(planned))
    return OmRecord(
        status=_worst([conversion.status for conversion in conversions]),
        findings=tuple(findings),
        conversions=tuple(conversions),
    )


def problems(record: OmRecord) -> list[Problem]:
    """What keeps a record from being `converted`, as errors that carry the exit status.

    QF602 (exit 3) stands for an atc that is not there, QF701 (exit 4) for one that failed, QF111
    (exit 2) for a conversion that atc was not asked for.
    """
    codes = {"failed": "QF701", "refused": "QF111"}
    order: tuple[OmStatus, ...] = ("failed", "refused")
    found = [
        Problem(
            codes[status],
            f"{conversion.bucket} was not converted: {conversion.reason}",
            where=" ".join(conversion.command),
        )
        for status in order
        for conversion in record.conversions
        if conversion.status == status
    ]
    if not found and record.status == "not-converted":
        fix = f"source CANN's set_env.sh, or run {SCRIPT} of that folder on a machine that has atc"
        found.append(Problem("QF602", "no .om file was made: atc was not found", "50_om", fix))
    return found


def _convert_one(
    loaded: LoadedConfig,
    plan: PlannedConversion,
    executable: str,
    out_dir: Path,
    on_line: Callable[[str], None],
) -> tuple[OmStatus, str, str | None]:
    """Run atc for one bucket; the folder then holds its .om file only if it was converted."""
    output = out_dir / plan.bucket
    _remove(output)  # a file that lies there already says nothing about this run
    try:
        outcome = run_atc(
            executable,
            plan.arguments,
            cwd=out_dir,
            timeout_s=loaded.config.atc.timeout_s,
            log_path=out_dir / "logs" / f"{plan.bucket}.log",
            on_line=on_line,
        )
    except OSError as error:
        return "failed", f"atc could not be started: {error.strerror}", None
    except BaseException:
        _remove(output)
        raise
    om = find_om(output)
    status, reason = judge(outcome, om, loaded.config.target.chip)
    if status == "converted" and om is not None:
        return status, reason, om.name
    if om is not None:
        om.rename(om.with_name(om.name + ".rejected"))
    return status, f"{reason}; log: 50_om/logs/{plan.bucket}.log", None


def _log_line(progress: Progress, bucket: str, done: int, total: int, line: str) -> None:
    progress(f"{bucket}: {line}", done, total)


def _remove(output: Path) -> None:
    for path in om_candidates(output):
        path.unlink(missing_ok=True)


def _first_error(findings: Sequence[Finding]) -> str:
    """The reason not to start atc, or empty."""
    errors = [finding for finding in findings if finding.level == "error"]
    if not errors:
        return ""
    more = f" (and {len(errors) - 1} more findings)" if len(errors) > 1 else ""
    return f"preflight: {errors[0].where}: {errors[0].what}{more}"


def _worst(statuses: Sequence[OmStatus]) -> OmStatus:
    for status in _WORST_FIRST:
        if status in statuses:
            return status
    return "not-converted"
