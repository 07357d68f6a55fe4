"""What a diagnosis is asked: on how many samples, and what there is to explain."""

from __future__ import annotations

from dataclasses import dataclass

from quantflow.artifacts.comparison import Comparison
from quantflow.tasks.criteria import Limit


@dataclass(frozen=True, slots=True)
class Missed:
    """What the comparison misses of the budget.

    Attributes:
        samples: evaluation samples that it ran on.
        figure: the task's figure, where that is missed, which a diagnosis does not measure.
        key: what in the configuration limits it, and to what; both are empty otherwise.
    """

    samples: int
    figure: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked.

    Attributes:
        samples: evaluation samples to run on, as far as there are.
        anyway: explain the loss within the budget as well.
        missed: what a current comparison misses; None without one, or where it misses nothing.
    """

    samples: int
    anyway: bool = False
    missed: Missed | None = None

    @property
    def explains(self) -> bool:
        """Whether the loss is to be explained although these samples are within the budget."""
        return self.anyway or self.missed is not None


def missed_by(comparison: Comparison, limit: Limit | None) -> Missed | None:
    """What a comparison misses, None where its gate has not failed.

    Args:
        comparison: current.
        limit: what the budget asks of the task's own records; None for a task without such.
    """
    if comparison.verdict != "fail":
        return None
    pairs = (x for x in comparison.paired if (x.model, x.baseline) == ("int8", "fp32"))
    int8 = next(pairs, None)
    if limit is None or limit.drop is None or int8 is None or int8.low <= limit.drop:
        return Missed(comparison.samples)
    return Missed(comparison.samples, comparison.task_metric, limit.key)
