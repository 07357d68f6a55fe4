"""What a stage is, and what it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from quantflow.artifacts.digest import file_digest, value_digest
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.config import Config, LoadedConfig, Section
from quantflow.progress import Progress, no_progress
from quantflow.runtime.workers import ALONE, Workers

OPTIMIZED = "25_optimize"


@dataclass(frozen=True, slots=True)
class Context:
    """What every stage is given.

    Attributes:
        loaded: the configuration.
        run: the run directory.
        progress: called as work goes on.
        force: run the stage even when nothing it reads has changed.
        workers: who can help.
    """

    loaded: LoadedConfig
    run: RunDirectory
    progress: Progress = no_progress
    force: bool = False
    workers: Workers = ALONE

    @property
    def config(self) -> Config:
        """The configuration proper."""
        return self.loaded.config

    def folder(self, stage: str) -> Path:
        """Where a finished stage's files are."""
        return self.run.folder(stage)

    @property
    def model_digest(self) -> str:
        """Digest of the canonical model's file."""
        return file_digest(self.folder("00_model") / "model.onnx")

    @property
    def quantized_model(self) -> Path:
        """Folder of the float model whose layers are quantized: `25_optimize` or `00_model`."""
        return self.folder(OPTIMIZED if self._optimized else "00_model")

    @property
    def quantized_ranges(self) -> Path:
        """Folder of the ranges and the fp16 report of that model: `25_optimize` or `20_ranges`."""
        return self.folder(OPTIMIZED if self._optimized else "20_ranges")

    @property
    def _optimized(self) -> bool:
        """Whether the optimization has run and changed anything."""
        there = self.run.manifest(OPTIMIZED) is not None
        return there and (self.folder(OPTIMIZED) / "model.json").exists()

    def digest_of(self, stage: str) -> str:
        """Digest of a finished stage's outputs; empty when it has not run."""
        manifest = self.run.manifest(stage)
        return manifest.digest if manifest is not None else ""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the pipeline.

    Attributes:
        folder: its folder in the run directory, such as ``20_ranges``.
        title: what it does, for a person.
        command: the command that runs it.
        reads: folders of the stages it reads.
        inputs: digests of all that decides its result, by name.
        work: writes the stage's files into an empty folder. What it imports is heavy, so that it
            lies in a module of its own, which a stage with nothing to do never imports.
        reads_if_there: folders of stages that it reads where they have run.
        assist: what a worker other than the leader does while that does `work`; None where the
            leader works alone.
    """

    folder: str
    title: str
    command: str
    reads: tuple[str, ...]
    inputs: Callable[[Context], dict[str, str]]
    work: Callable[[Context, Path], None]
    reads_if_there: tuple[str, ...] = ()
    assist: Callable[[Context], None] | None = None


def section_digest(section: Section) -> str:
    """Digest of a section of the configuration."""
    return value_digest(section.model_dump(mode="json"))
