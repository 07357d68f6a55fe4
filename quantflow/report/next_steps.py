"""What a person should do after a run, most urgent first."""

from __future__ import annotations

from quantflow.artifacts.om_record import Conversion, OmRecord
from quantflow.printable import printable
from quantflow.report.artifacts import Artifacts
from quantflow.report.gates import all_gates, diagnosed_step

LONGEST_REASON = 240
"""Characters of a failed conversion's reason in a next step; the table has more."""
_LOG = "; log: "


def next_steps(artifacts: Artifacts) -> list[str]:
    """Sentences; the first is the next step. Never empty."""
    failed = [gate for gate in all_gates(artifacts) if gate.verdict == "fail"]
    steps = [
        _diagnosed(artifacts) or gate.fix if gate.name == "accuracy" else gate.fix
        for gate in failed
    ]
    missing = _missing_command(artifacts)
    if missing and not steps:
        steps.append(f"run `{missing}`")
    if artifacts.om is not None:
        steps += _om_steps(artifacts.om)
    return steps or ["measure latency and accuracy on an NPU"]


def _diagnosed(artifacts: Artifacts) -> str:
    """What a diagnosis says to do about the accuracy; empty where none has been made."""
    found, comparison = artifacts.diagnosis, artifacts.comparison
    if found is None:
        return ""
    if found.finding != "nothing":
        return diagnosed_step(found)
    if comparison is None or found.samples >= comparison.samples:
        return ""
    few = f"the {found.samples} samples of the last one are within the budget"
    return f"run `quantflow diagnose --samples {comparison.samples}`: {few}"


def _missing_command(artifacts: Artifacts) -> str:
    """The command of the first stage that has no usable result."""
    commands = {
        "quantflow prepare": artifacts.model,
        "quantflow build-set": artifacts.sets or None,
        "quantflow calibrate": artifacts.ranges,
        "quantflow optimize": artifacts.optimize or artifacts.sweep,
        "quantflow sweep": artifacts.sweep,
        "quantflow export-onnx": artifacts.export,
        "quantflow compare": artifacts.comparison,
        "quantflow export-om": artifacts.om,
    }
    return next((command for command, result in commands.items() if result is None), "")


def _om_steps(om: OmRecord) -> list[str]:
    if om.status == "not-converted":
        there = "copy 50_om to a machine that has CANN and run `python3 convert.py` in it"
        return [f"{there}; then `quantflow export-om --collect FOLDER` here"]
    alike = dict[str, list[Conversion]]()  # by reason: one cause mostly stops them all
    for x in sorted(om.conversions, key=lambda x: x.kind != "int8"):
        if x.status in ("failed", "refused"):
            alike.setdefault(x.reason.partition(_LOG)[0], []).append(x)
    steps = [_mend(reason, some) for reason, some in alike.items()]
    if any(x.status == "converted" and x.kind == "int8" for x in om.conversions):
        steps.append(
            "on a machine with the NPU, with this run directory: `quantflow compare --runner om` "
            "gives accuracy and latency of 50_om's files"
        )
    return steps


def _mend(reason: str, conversions: list[Conversion]) -> str:
    first, others = conversions[0], len(conversions) - 1
    what = first.name + (f" and {others} more" if others else "")
    _, mark, log = first.reason.partition(_LOG)
    return f"mend the conversion of {what}: {printable(reason, LONGEST_REASON)}{mark}{log}"
