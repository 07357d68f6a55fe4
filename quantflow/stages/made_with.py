"""Noting with what a stage was made."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from quantflow.artifacts.digest import value_digest
from quantflow.artifacts.provenance import (
    PROVENANCE,
    Made,
    read_provenance,
)
from quantflow.runtime.onnxruntime_build import session_settings
from quantflow.stages.stage import Context

PACKAGES = ("quantflow", "onnxruntime", "numpy", "onnx", "onnx-ir", "torch")
"""What computes; each where it is installed."""


def note_provenance(context: Context, stage: str) -> None:
    """Write into `provenance.json` with what a stage has just been made.

    Args:
        context: of the stage.
        stage: its folder.
    """
    configuration = _configuration(context)
    made = Made(
        outputs=context.digest_of(stage),
        configuration=value_digest(configuration),
        versions={"python": platform.python_version(), **_versions()},
        platform=f"{platform.system()} {platform.machine()}",
        session=session_settings(context.config.runtime),
        seed=context.config.run.seed,
    )
    known = read_provenance(context.run.root)
    known.with_stage(stage, made, configuration).write(context.run.root / PROVENANCE)


def _configuration(context: Context) -> dict[str, Any]:
    """The configuration in force, without where its results go."""
    return context.config.model_dump(mode="json", exclude={"run": {"directory"}})


def _versions() -> dict[str, str]:
    found = dict[str, str]()
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
