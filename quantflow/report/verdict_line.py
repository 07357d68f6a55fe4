"""What ships, or why nothing does, in one sentence."""

from __future__ import annotations

from typing import Final

from quantflow.artifacts.om_record import OmStatus, elsewhere_text
from quantflow.report.artifacts import Artifacts
from quantflow.report.gates import Gate, all_gates

_CONVERTED: Final[dict[OmStatus, str]] = {
    "converted": "Ships: {passed}; the .om files are in 50_om.",
    "not-converted": (
        "Ships once it is converted: {passed}; 50_om holds all that atc takes, and no .om yet."
    ),
    "refused": "Does not ship: {passed}, but the conversion was refused.",
    "failed": "Does not ship: {passed}, but atc failed.",
}


def verdict_line(artifacts: Artifacts) -> str:
    """The sentence that the page begins with."""
    gates = all_gates(artifacts)
    failed = [gate for gate in gates if gate.verdict == "fail"]
    if failed:
        return f"Does not ship: {_counted(failed, gates)}."
    if artifacts.om is None:
        so_far = f"{_passed(gates)}, but " if gates else ""
        return f"Nothing to ship yet: {so_far}stages are still to run."
    line = _CONVERTED[artifacts.om.status].format(passed=_passed(gates))
    if artifacts.om.status == "converted" and artifacts.om.elsewhere:
        hosts = "; ".join(elsewhere_text(x) for x in artifacts.om.elsewhere)
        line = f"{line[:-1]}, converted on another machine: {hosts}."
    return line


def _counted(failed: list[Gate], gates: list[Gate]) -> str:
    names = ", ".join(gate.name for gate in failed)
    fails = "gates fails" if len(failed) == 1 else "gates fail"
    return f"{len(failed)} of {len(gates)} {fails} ({names})"


def _passed(gates: list[Gate]) -> str:
    """All gates pass, with or without warnings."""
    warned = [gate.name for gate in gates if gate.verdict == "warn"]
    every = f"all {len(gates)} gates pass" if len(gates) > 1 else "the first gate passes"
    return every + (f", with warnings ({', '.join(warned)})" if warned else "")
