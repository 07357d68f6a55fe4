"""What the comparison misses of the budget, for a diagnosis to explain."""

from __future__ import annotations

from quantflow.artifacts.comparison import Comparison
from quantflow.errors import QuantflowError
from quantflow.evaluation.asked import Missed, missed_by
from quantflow.stages.comparison import STAGE as COMPARE
from quantflow.stages.pipeline import is_current
from quantflow.stages.stage import Context
from quantflow.tasks.criteria import task_limit


def missed_budget(context: Context) -> Missed | None:
    """What a current comparison misses; None without one, or where it misses nothing."""
    if not comparison_is_current(context):
        return None
    found = Comparison.read(context.folder(COMPARE.folder) / "comparison.json")
    return missed_by(found, task_limit(context.config))


def comparison_is_current(context: Context) -> bool:
    """Whether the comparison is there, and of what is configured now."""
    try:
        there = context.run.manifest(COMPARE.folder) is not None
        return there and is_current(context, COMPARE.folder)
    except QuantflowError:  # what cannot be read is not what it was made from
        return False
