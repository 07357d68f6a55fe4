"""Tables of what is wrong with samples by themselves."""

from __future__ import annotations

from quantflow.artifacts.hygiene_record import HygieneReport
from quantflow.report.sheet import Sheet, count_text

MOST_IDS = 5
"""Samples that a row names."""


def findings_sheet(hygiene: HygieneReport) -> Sheet:
    """Every finding, the worst first."""
    rows = tuple(
        (x.verdict, x.kind, x.set, count_text(x.count), ", ".join(x.samples[:MOST_IDS]), x.text)
        for x in hygiene.findings
    )
    head = ("verdict", "finding", "set", "samples", "such as", "what")
    return Sheet("Hygiene of the samples", head, "lllrll", rows)


def sets_hygiene_sheet(hygiene: HygieneReport) -> Sheet:
    """Every set in figures."""
    rows = tuple(
        (
            x.set,
            count_text(x.samples),
            count_text(x.unfit),
            count_text(x.different),
            count_text(x.families),
            f"{x.effective:.1f}",
            f"{x.near_effective:.1f}",
        )
        for x in hygiene.sets
    )
    head = ("set", "samples", "left out", "different", "families", "effective", "near ones as one")
    note = (
        "Families: near duplicates count as one. Effective: how many different samples would "
        "average as steadily."
    )
    return Sheet("Repeats", head, "lrrrrrr", rows, note)
