"""With what a run was made: configuration, versions, sessions and seed, stage by stage.

It lies beside the stages and is no part of any digest: what decides a stage's result is in its
manifest already, as digests, which a person cannot read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from quantflow.artifacts.record import Record
from quantflow.errors import QuantflowError

PROVENANCE = "provenance.json"


class Made(Record):
    """With what one stage was made.

    Attributes:
        outputs: digest of what the stage wrote, by which a note of another attempt is told.
        configuration: digest of the one in force, which `Provenance.configurations` holds.
        versions: of python, quantflow and the packages that compute, by name.
        platform: operating system and processor.
        session: provider and options of the onnxruntime sessions, by their own names.
        seed: of every draw and every bootstrap.
    """

    outputs: str
    configuration: str
    versions: dict[str, str]
    platform: str
    session: dict[str, str]
    seed: int


class Provenance(Record):
    """`provenance.json`.

    Attributes:
        stages: by folder.
        configurations: as they were in force, options of the command line included, by digest. The
            run directory is left out of them, so that a run repeated elsewhere has the same record.
    """

    stages: dict[str, Made] = Field(default_factory=dict)
    configurations: dict[str, dict[str, Any]] = Field(default_factory=dict)

    def with_stage(self, stage: str, made: Made, configuration: dict[str, Any]) -> Provenance:
        """The same with a stage made anew; a configuration that no stage names goes."""
        stages = {**self.stages, stage: made}
        known = {**self.configurations, made.configuration: configuration}
        named = {x.configuration for x in stages.values()}
        return Provenance(
            stages=stages, configurations={key: known[key] for key in known if key in named}
        )

    def of(self, outputs: Mapping[str, str]) -> Provenance:
        """Only what was noted of the very results that are there.

        Args:
            outputs: digest of what every stage wrote, by folder.
        """
        kept = {name: x for name, x in self.stages.items() if outputs.get(name) == x.outputs}
        return self.model_copy(update={"stages": kept})


def read_provenance(root: Path) -> Provenance:
    """What is noted in a run directory; nothing where nothing that can be read is."""
    try:
        return Provenance.read(root / PROVENANCE)
    except QuantflowError:  # made before there was one, or damaged: it decides nothing
        return Provenance()
