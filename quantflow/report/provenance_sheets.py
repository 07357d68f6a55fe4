"""Tables of where a run comes from: versions, configuration, digests and times."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from quantflow.artifacts.provenance import Made, Provenance
from quantflow.report.artifacts import FOLDERS, Artifacts
from quantflow.report.sheet import Sheet, db_text

SHORT_DIGEST = 16
"""Digits that a digest is shown with where it only has to be told from others."""


def all_sheets(artifacts: Artifacts) -> list[Sheet]:
    """Stages, versions, configuration, files and what they were made from."""
    known, there = artifacts.provenance, len(artifacts.manifests)
    noted = [versions_sheet(known, there), configuration_sheet(known, there)]
    return [stages_sheet(artifacts), *noted, files_sheet(artifacts), inputs_sheet(artifacts)]


def stages_sheet(artifacts: Artifacts) -> Sheet:
    """How long every stage took, by which version, and the digest of what it wrote."""
    rows = [
        (folder, _seconds(artifacts.timings, folder), x.version, x.digest[:SHORT_DIGEST])
        for folder, x in artifacts.manifests.items()
    ]
    head = ("stage", "seconds", "quantflow", "digest of its outputs")
    note = (
        "Each stage names the digests of what it was made from, and one that no longer fits is "
        "refused. Seconds are of the last time that the stage ran."
    )
    return Sheet("Stages", head, "lrll", tuple(rows), note)


def _seconds(timings: Mapping[str, Any], folder: str) -> str:
    return db_text(timings[folder]["seconds"]) if folder in timings else "-"


def versions_sheet(known: Provenance, there: int) -> Sheet:
    """Versions, platform, provider, session options and seed.

    Args:
        known: what was noted.
        there: how many stages there are; stages are named where a value is not that of all.
    """
    rows = _by_value(known, there, _settings)
    head = ("what", "value", "stages")
    return Sheet("Versions, sessions and seed", head, "lll", tuple(rows))


def _settings(made: Made) -> dict[str, str]:
    named = {"seed": str(made.seed), "platform": made.platform}
    return {**made.versions, **named, **made.session}


def configuration_sheet(known: Provenance, there: int) -> Sheet:
    """The configuration as it was in force, defaults and options of the command line included.

    Args:
        known: what was noted.
        there: how many stages there are; stages are named where a value is not that of all.
    """
    trees = known.configurations
    rows = _by_value(known, there, lambda made: _leaves(trees.get(made.configuration, {})))
    note = "As it was in force, with defaults and --set. What is not listed is not set."
    return Sheet("Configuration", ("key", "value", "stages"), "lll", tuple(rows), note)


def _leaves(tree: Mapping[str, Any]) -> dict[str, str]:
    return dict(_walk(tree, ""))


def _walk(node: object, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        for name, child in cast(dict[str, object], node).items():
            yield from _walk(child, f"{key}.{name}" if key else name)
    elif node is not None:
        yield key, json.dumps(node, ensure_ascii=False)


def _by_value(
    known: Provenance, there: int, settings: Callable[[Made], Mapping[str, str]]
) -> Iterator[tuple[str, str, str]]:
    """Name, value and the stages that it holds for, which are left out where it holds for all."""
    stages = {name: settings(known.stages[name]) for name in FOLDERS if name in known.stages}
    for key in dict.fromkeys(key for found in stages.values() for key in found):
        values = {name: found.get(key, "-") for name, found in stages.items()}
        for value in dict.fromkeys(values.values()):
            named = [name for name, x in values.items() if x == value]
            yield key, value, "" if len(named) == there else ", ".join(named)


def files_sheet(artifacts: Artifacts) -> Sheet:
    """Every file of the run with its digest, so that a copy of it can be told."""
    rows = [
        (f"{folder}/{name}", digest)
        for folder, manifest in artifacts.manifests.items()
        for name, digest in manifest.outputs.items()
    ]
    return Sheet("Files", ("file", "SHA-256"), "ll", tuple(rows))


def inputs_sheet(artifacts: Artifacts) -> Sheet:
    """What every stage was made from."""
    rows = [
        (folder, name, value if len(value) < SHORT_DIGEST or " " in value else value[:SHORT_DIGEST])
        for folder, manifest in artifacts.manifests.items()
        for name, value in manifest.inputs.items()
    ]
    note = "Digests of files, stages and sections of the configuration; versions and seed as text."
    return Sheet(
        "What each stage was made from", ("stage", "input", "digest"), "lll", tuple(rows), note
    )
