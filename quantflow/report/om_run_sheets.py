"""Tables of what .om files came to on an NPU: the probes' answers, and times."""

from __future__ import annotations

from collections.abc import Iterator

from quantflow.artifacts.om_run import Latency, ProbeAnswer
from quantflow.artifacts.side_by_side import SideBySide
from quantflow.report.sheet import Sheet


def om_run_sheets(found: SideBySide) -> Iterator[Sheet]:
    """Nothing where no .om file ran."""
    if found.probes:
        yield probes_sheet(found.probes)
    if found.latency is not None:
        yield latency_sheet(found.latency)


def probes_sheet(answers: tuple[ProbeAnswer, ...]) -> Sheet:
    """What the chip does where it could only be assumed."""
    rows = tuple(
        (x.question, x.answer or "none of the known answers", _judged(x), x.meaning)
        for x in answers
    )
    note = "Each answer is what the output of a tiny model on the chip shows."
    head = ("question", "answer", "assumed", "what it means")
    return Sheet("What the chip answers", head, "llll", rows, note, elsewhere="--json has all")


def latency_sheet(found: Latency) -> Sheet:
    """Milliseconds of an execution."""
    rows = tuple(
        (x.side, f"{x.median_ms:.3f}", f"{x.p10_ms:.3f}", f"{x.p90_ms:.3f}") for x in found.sides
    )
    ratio = ""
    if found.ratio is not None:
        interval = f"{found.ratio_low:.3f} to {found.ratio_high:.3f}"
        ratio = f" Ratio of the medians, other over reference: {found.ratio:.3f} ({interval})."
    note = (
        f"Measured on {found.device}. {found.rounds} executions of {found.batch} samples each, in "
        f"turns, after {found.warm_up}; copies to and from the device are left out.{ratio}"
    )
    head = ("model", "median, ms", "10%, ms", "90%, ms")
    return Sheet("Latency", head, "lrrr", rows, note)


def _judged(answer: ProbeAnswer) -> str:
    if answer.answer == answer.assumed:
        return "yes"
    return f"no: {answer.assumed}" + ("" if answer.relied_on else " (not relied on)")
