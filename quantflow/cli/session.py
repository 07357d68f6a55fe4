"""From options to a configuration, a run directory and a context for the stages."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from quantflow.cli.options import Options
from quantflow.cli.progress import drawing

if TYPE_CHECKING:
    from quantflow.artifacts.run_directory import RunDirectory
    from quantflow.config import LoadedConfig
    from quantflow.runtime.workers import Workers
    from quantflow.stages.stage import Context


@contextmanager
def session(options: Options, workers: Workers) -> Generator[Context]:
    """A context for the stages, with the leader's progress drawn on stderr while it is open.

    Raises:
        QuantflowError: QF101 to QF106, all problems of the configuration at once.
    """
    from quantflow.artifacts.run_directory import RunDirectory
    from quantflow.config import load_config
    from quantflow.stages.stage import Context

    loaded = limited(load_config(options.config, options.overrides), options.limit)
    with drawing(quiet=options.quiet or workers.place.rank > 0) as progress:
        run = RunDirectory(loaded.run_directory)
        yield Context(loaded, run, progress, force=options.force, workers=workers)


def limited(loaded: LoadedConfig, limit: int | None) -> LoadedConfig:
    """The configuration with no set of more than `limit` samples."""
    if limit is None:
        return loaded
    sets = loaded.config.set
    names = ("samples", "heldout_samples", "evaluation_samples")
    sets = sets.model_copy(update={name: min(getattr(sets, name), limit) for name in names})
    return loaded.model_copy(update={"config": loaded.config.model_copy(update={"set": sets})})


def finished_run(config: Path, directory: Path | None) -> RunDirectory:
    """The run directory to read results from.

    Raises:
        QuantflowError: QF404 when it does not exist, QF101 to QF106 for the configuration.
    """
    from quantflow.artifacts.run_directory import RunDirectory
    from quantflow.config import load_config
    from quantflow.errors import fail

    root = directory or load_config(config).run_directory
    if not root.is_dir():
        fail("QF404", "no such run directory", where=str(root), fix="run `quantflow run` first")
    return RunDirectory(root)
