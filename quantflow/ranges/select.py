"""The range in force for one tensor: the configured estimator's, or the one `auto` chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from quantflow.artifacts.ranges_record import TensorRange
from quantflow.graph.layer_settings import TensorSettings
from quantflow.numerics.quantize import QuantParams
from quantflow.ranges.auto import DEFAULT, Trial, choose
from quantflow.ranges.bounds import Bounds
from quantflow.ranges.collect import TensorStatistics
from quantflow.ranges.density import density
from quantflow.ranges.distortion import squared_error
from quantflow.ranges.estimators import EstimatorSettings, candidates
from quantflow.ranges.given import ESTIMATOR as GIVEN
from quantflow.ranges.given import REASON, given_bounds
from quantflow.ranges.grid import Histogram
from quantflow.ranges.levels import levels_of


@dataclass(frozen=True, slots=True)
class Selection:
    """Every candidate's bounds by name, the name of the chosen one, and why."""

    candidates: dict[str, Bounds]
    chosen: str
    reason: str

    def range_of(self, tensor: str, *, symmetric: bool) -> TensorRange:
        """The chosen range as a record."""
        bounds = self.candidates[self.chosen]
        return TensorRange(
            tensor=tensor,
            low=float(bounds.low),
            high=float(bounds.high),
            estimator=self.chosen,
            symmetric=symmetric,
            reason=self.reason,
        )

    def overruled_by(self, params: QuantParams) -> Selection:
        """The same candidates, and what a quantized file gives in force."""
        return Selection({**self.candidates, GIVEN: given_bounds(params)}, GIVEN, REASON)


def select_range(
    seen: TensorStatistics, trials: Callable[[], Sequence[Trial]], settings: TensorSettings
) -> Selection:
    """Choose a tensor's range.

    Args:
        seen: its statistics on the calibration set.
        trials: gives what `auto` judges by; called only for it.
        settings: which estimator, and what it is told.
    """
    told = EstimatorSettings(symmetric=settings.symmetric, percentile=settings.percentile)
    found = candidates(seen.histogram, told)
    if settings.estimator != "auto":
        return Selection(found, settings.estimator, "")
    choice = choose(trials(), _unopposed(seen.histogram, found, told), symmetric=told.symmetric)
    return Selection(found, choice.name, choice.reason)


def _unopposed(
    hist: Histogram, found: Mapping[str, Bounds], told: EstimatorSettings
) -> dict[str, Bounds]:
    """Min-max, and the candidates whose squared error over all values is no larger.

    `auto` judges by sampled rows. The rare row that holds a huge value (of a token that attention
    falls back to, say) may not be among them, while the network depends on it: on SmolLM2, ranges
    that pass by the sample alone cut such values a thousandfold. The histogram has seen them all.
    """
    levels = levels_of(found.values(), symmetric=told.symmetric)
    errors = squared_error(density(hist), levels.low, levels.high, levels.step)
    by_name = dict(zip(found, errors.tolist(), strict=True))
    return {name: found[name] for name in found if by_name[name] <= by_name[DEFAULT]}
