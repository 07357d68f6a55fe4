"""What a damage is told in: each metric's own unit, its name, and which way it points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from quantflow.report.sheet import cosine_text, db_text, number_text, share_text


@dataclass(frozen=True, slots=True)
class Quantity:
    """A damage as people are told of it.

    Attributes:
        name: in a sentence.
        head: of a column.
        text: of the quantity with its unit.
        limit_text: of a limit, which has as many digits as it was given with.
        of_damage: from the mean damage over samples.
        falls: whether it gets smaller as damage grows.
        percent: whether a plot shows it in percent.
    """

    name: str
    head: str
    text: Callable[[float], str]
    limit_text: Callable[[float], str]
    of_damage: Callable[[float], float] = float
    falls: bool = False
    percent: bool = False

    def damage_text(self, damage: float) -> str:
        """The damage in this quantity."""
        return self.text(self.of_damage(damage))

    def ends(self, low: float, high: float) -> tuple[float, float]:
        """An interval of the damage as one of this quantity, the smaller end first."""
        first, second = self.of_damage(low), self.of_damage(high)
        return (second, first) if self.falls else (first, second)

    def interval_text(self, low: float, high: float) -> str:
        """An interval of the damage, in this quantity."""
        return " to ".join(map(self.text, self.ends(low, high)))

    def bound_text(self, limit: float) -> str:
        """The greatest damage allowed: ``at most 6%``."""
        return f"{'at least' if self.falls else 'at most'} {self.limit_text(self.of_damage(limit))}"

    def bound_cell(self, limit: float) -> str:
        """The same, short: ``<= 6%``."""
        return f"{'>=' if self.falls else '<='} {self.limit_text(self.of_damage(limit))}"

    def gap_text(self, damage: float, limit: float) -> str:
        """How far a damage is from its limit: ``2.21 points``."""
        gap = number_text(abs(self.of_damage(damage) - self.of_damage(limit)) * self.scale)
        return f"{gap} points" if self.percent else gap

    @property
    def scale(self) -> int:
        """What a plot multiplies it with."""
        return 100 if self.percent else 1

    @property
    def label(self) -> str:
        """Its name with the unit of a plot."""
        return f"{self.name}, %" if self.percent else self.name


def complement(damage: float) -> float:
    """Of a damage that is a distance from 1."""
    return 1.0 - damage


def rise(damage: float) -> float:
    """The fraction by which the perplexity rises, where the damage is the logarithm of a ratio."""
    with np.errstate(over="ignore"):
        return float(np.expm1(damage))


def percent_text(value: float) -> str:
    """A fraction in percent, with two digits behind the point where that says something."""
    if -5e-5 < value < 0:
        return ">-0.01%"
    # What is not finite is not less than 10.
    return share_text(value) if abs(value) < 10 else f"{number_text(100 * value)}%"


def _limit(value: float) -> str:
    return f"{value:.8g}"


def _percent_limit(value: float) -> str:
    return f"{100 * value:.6g}%"


def _points_text(share: float) -> str:
    """A difference of shares, which a percentage of one would be mistaken for."""
    return f"{100 * share:.4g} points"


_RISE = Quantity(
    "rise of the perplexity", "rise", percent_text, _percent_limit, of_damage=rise, percent=True
)
_DROP = Quantity("drop of the figure", "drop", number_text, _limit)


def _distance(name: str) -> Quantity:
    return Quantity(name, "damage", number_text, _limit)


DAMAGES: Final[dict[str, Quantity]] = {
    "cosine": _distance("distance of the outputs' cosine from 1"),
    "sqnr": _distance("noise of the outputs over their power"),
    "relative_error": _distance("relative error of the outputs"),
    "kl": _distance("divergence of the outputs' softmax in nats"),
    "agreement": Quantity(
        "share of decisions that change", "change", percent_text, _percent_limit, percent=True
    ),
    "perplexity": _RISE,
    "function": _DROP,
}
"""What a group does, by the metric that groups are ranked by: 0 for nothing, larger is worse."""

_OF_RECORDS: Final[dict[str, Quantity]] = {
    "classification": Quantity("drop of the accuracy", "drop", _points_text, _points_text),
    "retrieval": Quantity("drop of the mean reciprocal rank", "drop", number_text, _limit),
    "similarity": Quantity("drop of the rank correlation", "drop", number_text, _limit),
}
"""Of tasks that have records of their own."""

FIGURES: Final[dict[str, Quantity]] = {
    "cosine": Quantity(
        "mean cosine", "cosine", cosine_text, _limit, of_damage=complement, falls=True
    ),
    "agreement": Quantity(
        *("agreement with fp32", "agreement", percent_text, _percent_limit),
        of_damage=complement,
        falls=True,
        percent=True,
    ),
    "perplexity": _RISE,
    "function": _DROP,
    **_OF_RECORDS,
}
"""What a plan comes to, by what it is measured by, in the unit of the budget."""

DROPS: Final[dict[str, Quantity]] = {
    **_OF_RECORDS,
    "agreement": Quantity("drop of the agreement", "drop", _points_text, _points_text),
    "perplexity": _RISE,
    "function": _DROP,
}
"""How much worse one precision is than another, by the kind of the task."""

VALUES: Final[dict[str, tuple[str, Callable[[float], str]]]] = {
    "cosine": ("cosine", cosine_text),
    "sqnr": ("SQNR dB", db_text),
    "perplexity": ("perplexity", number_text),
    "agreement": ("agreement", percent_text),
    "function": ("figure", number_text),
    "classification": ("accuracy", percent_text),
    "retrieval": ("reciprocal rank", number_text),
    "similarity": ("correlation", number_text),
}
"""Column and text of a metric's value; of the others the damage is the value."""
