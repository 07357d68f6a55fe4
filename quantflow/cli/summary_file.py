"""Keeping `summary.json` true: it is rewritten from what is current, or removed."""

from __future__ import annotations

from quantflow.artifacts.run_directory import RunDirectory
from quantflow.report.artifacts import Artifacts, read_artifacts
from quantflow.stages.summary import NAME, summarize


def refresh_summary(run: RunDirectory) -> Artifacts:
    """Write the summary when the comparison is current, else remove one of an earlier state.

    Returns:
        The run's artifacts, the summary included.
    """
    artifacts = read_artifacts(run)
    if artifacts.comparison is None or artifacts.export is None:
        (run.root / NAME).unlink(missing_ok=True)
    else:
        summarize(run)
    return read_artifacts(run)
