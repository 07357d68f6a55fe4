"""The hygiene report: repeats, leaks from the evaluation data, samples with nothing in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from quantflow.artifacts.hygiene_record import Finding, FindingKind, HygieneReport, SetHygiene
from quantflow.artifacts.record import Verdict, worst
from quantflow.calibration.drift.sample_size import effective_size, repeat_verdict
from quantflow.calibration.features.extract import holds_tokens
from quantflow.calibration.hygiene.filler import filler_of
from quantflow.calibration.hygiene.grouped_sets import GroupedSet, Seen, grouped_sets

NAMED = 20
"""Samples that a finding names."""

NEAR_OVERLAP = 0.01
"""Share of a set from which near duplicates of evaluation samples are a warning."""

_ORDER: Final[dict[Verdict, int]] = {"fail": 0, "warn": 1, "pass": 2}

_UNFIT: Final[dict[str, tuple[FindingKind, str]]] = {
    "QF307": ("no-content", "are empty or all padding"),
    "QF315": ("not-finite", "hold NaN or Inf"),
}


def hygiene_report(sets: Mapping[str, Seen], usual: float = 1.0) -> HygieneReport:
    """What is wrong with the samples of some sets. Their order matters to no verdict or count.

    Repeats are judged against `deployment`, which may repeat itself: a set fails that has less than
    half of its share of effective samples, if it is the one that is calibrated with. Near
    duplicates only ever warn, for their similarity is estimated.

    Args:
        sets: by name; `calibration`, `deployment` and `evaluation` mean something.
        usual: share of effective samples in deployment, 0-1, where only a profile of it is there.
    """
    grouped = grouped_sets(sets)
    production, evaluation = grouped.get("deployment"), grouped.get("evaluation")
    findings = list[Finding]()
    for one in grouped.values():
        findings += _repeats(one, production, usual)
        if evaluation is not None and one.name in ("candidates", "calibration"):
            findings += _overlap(one, evaluation)
        findings += _of_samples(one)
    findings.sort(key=lambda finding: _ORDER[finding.verdict])
    verdicts: list[Verdict] = [finding.verdict for finding in findings]
    return HygieneReport(
        verdict=worst(*verdicts),
        findings=tuple(findings),
        sets=tuple(_figures(one) for one in grouped.values()),
    )


def _figures(one: GroupedSet) -> SetHygiene:
    return SetHygiene(
        set=one.name,
        samples=len(one.exact),
        unfit=len(one.seen.unfit),
        different=len(set(one.exact)),
        families=len(set(one.near)),
        effective=effective_size(one.exact),
        near_effective=effective_size(one.near),
    )


def _repeats(one: GroupedSet, production: GroupedSet | None, usual: float) -> Iterator[Finding]:
    """Exact duplicates, and what near duplicates there are besides."""
    if not one.exact:
        return
    total = len(one.exact)
    exact, near = total - len(set(one.exact)), len(set(one.exact)) - len(set(one.near))
    exact_usual = _share(production.exact) if production else usual
    near_usual = _share(production.near) if production else usual
    if exact:
        verdict = repeat_verdict(one.exact, exact_usual)
        if verdict == "fail" and one.name != "calibration":
            verdict = "warn"
        text = (
            f"{exact} of {total} {one.noun} repeat others: the effective sample size is "
            f"{effective_size(one.exact):.1f}"
        )
        yield _finding("exact-duplicates", one, exact, _largest(one.ids, one.exact), verdict, text)
    if near:
        steady = repeat_verdict(one.near, near_usual) == "pass"
        text = (
            f"{near} of {total} {one.noun} nearly repeat others ({near / total:.1%}): with "
            f"near duplicates as one, the effective sample size is {effective_size(one.near):.1f}"
        )
        ids, groups = _different(one)
        verdict = "pass" if steady else "warn"
        yield _finding("near-duplicates", one, near, _largest(ids, groups), verdict, text)


def _overlap(one: GroupedSet, evaluation: GroupedSet) -> Iterator[Finding]:
    """Samples that the evaluation data holds as well, or nearly so."""
    contents, families = set(evaluation.exact), set(evaluation.near)
    held = [i for i, digest in enumerate(one.exact) if digest in contents]
    exact = [*one.seen.passed, *(one.ids[i] for i in held)]
    if exact:
        left_out = " and were left out" if not held else ""
        text = (
            f"{len(exact)} {one.noun} equal evaluation samples{left_out}: accuracy seems "
            "to be measured on the data that calibration comes from"
        )
        yield _finding("evaluation-overlap", one, len(exact), _in_order(exact), "warn", text)
    near = [one.ids[i] for i in range(len(one.near)) if one.near[i] in families]
    near = sorted(set(near) - set(exact))
    if near:
        share = len(near) / len(one.near)
        verdict: Verdict = "warn" if share >= NEAR_OVERLAP else "pass"
        text = f"{len(near)} {one.noun} ({share:.1%}) are nearly evaluation samples"
        yield _finding("near-evaluation-overlap", one, len(near), _in_order(near), verdict, text)


def _of_samples(one: GroupedSet) -> Iterator[Finding]:
    """Samples that were left out, those that say nothing, and padding that nothing marks."""
    for code, (kind, how) in _UNFIT.items():
        ids = [unfit.id for unfit in one.seen.unfit if unfit.code == code]
        if ids:
            text = f"{len(ids)} {one.noun} {how} and were left out"
            yield _finding(kind, one, len(ids), _in_order(ids), "warn", text)
    yield from _constant(one)
    filler = filler_of(one.seen.prints)
    if filler is not None and len(set(one.exact)) > 1:
        ids = [one.ids[i] for i in filler.places]
        why = "their mask keeps it" if one.seen.prints.masked else "the model has no mask"
        text = (
            f"{len(ids)} of {len(one.ids)} {one.noun} begin or end with token {filler.token} "
            f"repeated, as if padded by it, but {why}: padding counts like text"
        )
        yield _finding("missing-mask", one, len(ids), _in_order(ids), "warn", text)


def _constant(one: GroupedSet) -> Iterator[Finding]:
    """Samples with an input whose values are all equal.

    An integer input that is so throughout the set, such as the types of tokens, is meant to be.
    """
    for place, tensor in enumerate(one.seen.prints.inputs):
        constant = one.seen.prints.constant[:, place]
        meant = holds_tokens(tensor) and len(constant) > 1 and bool(constant.all())
        if constant.any() and not meant:
            ids = [one.ids[i] for i in np.flatnonzero(constant)]
            share = f"{len(ids)} of {len(constant)} {one.noun}"
            text = f"{share} have a single value throughout {tensor.name!r}"
            yield _finding("constant", one, len(ids), _in_order(ids), "warn", text)


def _share(groups: Sequence[str]) -> float:
    return effective_size(groups) / len(groups) if groups else 1.0


def _different(one: GroupedSet) -> tuple[list[str], list[str]]:
    """Ids of the different samples, the first for all that are equal, and their near groups."""
    first = dict[str, str]()
    for sample, digest in zip(one.ids, one.exact, strict=True):
        first[digest] = min(first.get(digest, sample), sample, key=_by_number)
    group_of = dict(zip(one.exact, one.near, strict=True))
    return list(first.values()), [group_of[digest] for digest in first]


def _largest(ids: Sequence[str], groups: Sequence[str]) -> list[str]:
    """Ids of what is in groups of more than one, the largest groups first."""
    sizes = Counter(groups)
    members = dict[str, list[str]]()
    for sample, group in zip(ids, groups, strict=True):
        if sizes[group] > 1:
            members.setdefault(group, []).append(sample)
    whole = sorted(map(_in_order, members.values()), key=lambda x: (-len(x), _by_number(x[0])))
    return [sample for group in whole for sample in group]


def _in_order(ids: Sequence[str]) -> list[str]:
    return sorted(ids, key=_by_number)


def _by_number(sample: str) -> tuple[int, str]:
    """Puts ``candidates[9]`` before ``candidates[10]``."""
    return len(sample), sample


def _finding(
    kind: FindingKind, one: GroupedSet, count: int, ids: Sequence[str], verdict: Verdict, text: str
) -> Finding:
    return Finding(
        kind=kind,
        set=one.name,
        count=count,
        samples=tuple(ids[:NAMED]),
        verdict=verdict,
        text=text,
    )
