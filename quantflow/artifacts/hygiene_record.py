"""What stage 1 finds wrong with samples by themselves (`10_set/hygiene.json`)."""

from __future__ import annotations

from typing import Literal

from quantflow.artifacts.record import Record, Verdict

FindingKind = Literal[
    "exact-duplicates",
    "near-duplicates",
    "evaluation-overlap",
    "near-evaluation-overlap",
    "constant",
    "no-content",
    "not-finite",
    "missing-mask",
]


class Finding(Record):
    """Something about the samples of a set.

    Attributes:
        kind: what it is about.
        set: name of the set: `candidates`, `calibration`, `deployment` or `evaluation`.
        count: samples concerned.
        samples: their ids, at most 20; of duplicates, group after group, the largest first.
        verdict: `pass` for what is merely worth knowing.
        text: one sentence.
    """

    kind: FindingKind
    set: str
    count: int
    samples: tuple[str, ...]
    verdict: Verdict
    text: str


class SetHygiene(Record):
    """A set in figures.

    Attributes:
        set: its name.
        samples: how many are usable.
        unfit: how many were left out, since nothing usable is in them.
        different: with different content.
        families: groups of near duplicates, single samples among them.
        effective: how many different samples would average as steadily (Kish 1965).
        near_effective: the same with near duplicates as one.
    """

    set: str
    samples: int
    unfit: int
    different: int
    families: int
    effective: float
    near_effective: float


class HygieneReport(Record):
    """`10_set/hygiene.json`.

    Attributes:
        verdict: the worst of the findings.
        findings: the worst first.
        sets: in figures, in the order they were given.
    """

    verdict: Verdict
    findings: tuple[Finding, ...]
    sets: tuple[SetHygiene, ...]
