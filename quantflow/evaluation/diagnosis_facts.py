"""What the sentence of a diagnosis takes figures from."""

from __future__ import annotations

from dataclasses import dataclass

from quantflow.artifacts.ranges_record import Fp16Report
from quantflow.evaluation.asked import Missed
from quantflow.evaluation.diagnosis import Diagnosed
from quantflow.evaluation.trials import Setup, Trials


@dataclass(frozen=True, slots=True)
class Facts:
    """What sentences take figures from.

    Attributes:
        trials, setup: the model, and what is in force.
        found: what the experiments came to.
        fp16: what fp16 cannot hold.
        missed: what the comparison misses; None without one, or where it misses nothing.
    """

    trials: Trials
    setup: Setup
    found: Diagnosed
    fp16: Fp16Report
    missed: Missed | None = None

    @property
    def samples(self) -> str:
        """How many there are."""
        return f"{len(self.trials.probe)} evaluation samples"
