"""What `quantflow export-om` would run: the command of every bucket, and what preflight says."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.om_record import Finding
from quantflow.ascend.command import in_graph_order
from quantflow.ascend.environment import environment_findings, find_atc
from quantflow.ascend.planned import wanted_conversions
from quantflow.ascend.preflight import bucket_findings, common_findings, is_int8
from quantflow.errors import ExitCode
from quantflow.printable import printable

if TYPE_CHECKING:
    from quantflow.stages.stage import Context


@dataclass(frozen=True, slots=True)
class PlannedConversion:
    """What would be run.

    Attributes:
        directory: where, which the stage writes first.
        commands: by name of the conversion; paths among the arguments are relative to `directory`.
        probes: those of the conversions that are of probes.
        findings: of preflight. With an error among them, nothing would be run.
        atc: its path; None when it was not found.
    """

    directory: Path
    commands: dict[str, tuple[str, ...]]
    probes: frozenset[str]
    findings: tuple[Finding, ...]
    atc: str | None

    @property
    def exit_code(self) -> ExitCode:
        """That of a refused conversion, where an error was found."""
        refused = any(finding.level == "error" for finding in self.findings)
        return ExitCode.USAGE if refused else ExitCode.OK

    def tree(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "directory": str(self.directory),
            "atc": self.atc,
            "commands": [
                {"name": name, "arguments": list(words), "shell": shell_line(words)}
                for name, words in self.commands.items()
            ],
            "findings": [finding.to_tree() for finding in self.findings],
        }


def planned_conversion(context: Context) -> PlannedConversion | None:
    """The conversion of the deploy models that are there; None before stage 4 has run.

    Raises:
        QuantflowError: QF401 or QF402 when a record of an earlier stage cannot be read.
    """
    if not (context.run.manifest("00_model") and context.run.manifest("40_onnx")):
        return None
    loaded = context.loaded
    export_dir, out_dir = context.folder("40_onnx"), context.folder("50_om")
    model = ModelRecord.read(context.folder("00_model") / "model.json")
    export = in_graph_order(ExportRecord.read(export_dir / "export.json"), model)
    atc = find_atc(loaded)
    findings = list(environment_findings(atc, os.environ))
    findings += common_findings(loaded, int8=any(map(is_int8, export.buckets)))
    for bucket in export.buckets:
        findings += bucket_findings(loaded, bucket, export_dir, out_dir)
    wanted = list(wanted_conversions(loaded.config.atc, export, export_dir, out_dir))
    return PlannedConversion(
        directory=out_dir,
        commands={x.name: x.command(loaded) for x in wanted},
        probes=frozenset(x.name for x in wanted if x.kind == "probe"),
        findings=tuple(findings),
        atc=atc,
    )


def shell_line(words: Sequence[str]) -> str:
    """A command as a shell takes it, whatever its length."""
    line = shlex.join(words)
    return printable(line, len(line))
