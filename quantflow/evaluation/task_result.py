"""What all precisions come to in a task: their figures, and how they compare pair by pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quantflow.artifacts.comparison import PairedScore, Precision, TaskScore
from quantflow.artifacts.sweep_record import Measure
from quantflow.tasks.criteria import Limit
from quantflow.tasks.figures import Figures
from quantflow.tasks.judgement import Judgement
from quantflow.tasks.paired_score import PAIRS, Pairing


@dataclass(frozen=True, slots=True)
class TaskResult:
    """A task in every precision.

    Attributes:
        scores: its main figure by precision.
        details: further figures by name and precision.
        paired: the pairs that people look at.
        against_fp32: every other precision compared with fp32.
    """

    scores: dict[Precision, TaskScore] = field(default_factory=dict[Precision, TaskScore])
    details: dict[str, dict[Precision, TaskScore]] = field(
        default_factory=dict[str, dict[Precision, TaskScore]]
    )
    paired: tuple[PairedScore, ...] = ()
    against_fp32: dict[Precision, PairedScore] = field(default_factory=dict[Precision, PairedScore])

    def measures(self, limit: Limit) -> dict[Precision, Measure]:
        """Every precision as the budget sees it."""
        found = dict[Precision, Measure]()
        for name, score in self.scores.items():
            pair = self.against_fp32.get(name)
            damage, low, high = (pair.damage, pair.low, pair.high) if pair else (0.0, 0.0, 0.0)
            found[name] = Measure(
                metric=limit.kind,
                value=score.value,
                damage=damage,
                low=low,
                high=high,
                limit=limit.drop,
            )
        return found


def result_of_records(pairing: Pairing, found: Mapping[Precision, Judgement]) -> TaskResult:
    """The result of a task with records of its own.

    Args:
        pairing: how precisions are compared.
        found: what each came to, `fp32` among them.
    """
    details = dict[str, dict[Precision, TaskScore]]()
    for name, judged in found.items():
        for detail, score in judged.detail_scores(seed=pairing.seed).items():
            details.setdefault(detail, {})[name] = score
    scores = dict[Precision, TaskScore]()
    for name, judged in found.items():
        scores[name] = judged.score(seed=pairing.seed)
    return _paired(pairing, found, scores, details)


def result_of_figures(pairing: Pairing, found: Mapping[Precision, Figures]) -> TaskResult:
    """The result of a task on the evaluation samples; nothing without figures."""
    scores, judged = dict[Precision, TaskScore](), dict[Precision, Judgement]()
    for name, seen in found.items():
        scores[name] = seen.score(seed=pairing.seed)
        weights = seen.weights if seen.metric.weight is not None else None
        judged[name] = Judgement.of_values(seen.values, weights)
    return _paired(pairing, judged, scores, {}) if found else TaskResult()


def _paired(
    pairing: Pairing,
    found: Mapping[Precision, Judgement],
    scores: dict[Precision, TaskScore],
    details: dict[str, dict[Precision, TaskScore]],
) -> TaskResult:
    against = dict[Precision, PairedScore]()
    for name in found:
        if name != "fp32":
            against[name] = pairing(name, "fp32", found)
    pairs = tuple(
        against[model] if baseline == "fp32" else pairing(model, baseline, found)
        for model, baseline in PAIRS
    )
    return TaskResult(scores, details, pairs, against)
