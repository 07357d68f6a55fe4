"""What the budget asks for, each as a metric and the greatest mean damage that it allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import log1p
from pathlib import Path
from typing import Final

from quantflow.config import COSINE_MEAN, Config, TaskKind
from quantflow.tasks.metrics import METRICS, Metric, task_metric


@dataclass(frozen=True, slots=True)
class Criterion:
    """A metric that plans are measured by.

    Attributes:
        name: of the metric.
        metric: how a sample is measured.
        limit: greatest mean damage over samples; None where the budget asks nothing of it.
        key: what in the configuration sets the limit, and to what; empty without a limit.
    """

    name: str
    metric: Metric
    limit: float | None = None
    key: str = ""


@dataclass(frozen=True, slots=True)
class Limit:
    """What the budget asks of a task with records of its own, which plans are not measured by.

    Attributes:
        kind: of the task.
        drop: greatest damage of its figure; None where the budget asks nothing.
        key: what in the configuration sets it, and to what; empty without a limit.
    """

    kind: TaskKind
    drop: float | None = None
    key: str = ""


USUAL_DROPS: Final[Mapping[TaskKind, float]] = {
    "classification": 0.005,
    "agreement": 0.005,
    "perplexity": log1p(0.05),
    "retrieval": 0.01,
    "similarity": 0.01,
}
"""A damage that is worth seeing where the budget does not say which."""


def task_limit(config: Config) -> Limit | None:
    """What the budget asks of the task's own records; None for a task without such."""
    if config.task is None or not config.task.sources:
        return None
    drop = config.budget.task_drop
    key = "" if drop is None else f"budget.task_drop is {drop}"
    return Limit(config.task.kind, drop, key)


def asked_drop(config: Config) -> float | None:
    """The damage of the task's figure that one wants to see: the budget's, or the usual one."""
    if config.task is None:
        return None
    kind, drop = config.task.kind, config.budget.task_drop
    if not config.task.sources:
        drop, _ = _limits(config).get(kind, (None, ""))
    return drop or USUAL_DROPS.get(kind)


def criteria(config: Config, base: Path) -> dict[str, Criterion]:
    """All that plans are measured by, by name: what has a limit first, the cosine always.

    Args:
        config: budget and task count.
        base: directory of the configuration, for a user's own metric.

    Returns:
        The damage of `cosine` is ``1 - cosine``, that of `perplexity` the logarithm of the ratio to
        the float model's, that of `agreement` the share of decisions that change, and that of
        `function` the drop of the user's figure.
    """
    found = {name: Criterion(name, metric) for name, metric in _metrics(config, base).items()}
    for name, (limit, key) in _limits(config).items():
        found[name] = Criterion(name, found[name].metric, limit, key)
    return dict(sorted(found.items(), key=lambda item: item[1].limit is None))


def _metrics(config: Config, base: Path) -> Mapping[str, Metric]:
    metrics = dict[str, Metric]()
    if config.task is not None and (metric := task_metric(config.task, base)) is not None:
        metrics[config.task.kind] = metric
    return metrics | {"cosine": METRICS["cosine"]}


def _limits(config: Config) -> dict[str, tuple[float, str]]:
    """The greatest mean damage by metric, and the key that says so."""
    budget = config.budget
    limits = dict[str, tuple[float, str]]()
    if (rise := budget.perplexity_rise_fraction) is not None:
        limits["perplexity"] = log1p(rise), f"budget.perplexity_rise_fraction is {rise}"
    if (least := budget.agreement_fraction) is not None:
        limits["agreement"] = _complement(least), f"budget.agreement_fraction is {least}"
    function = config.task is not None and config.task.kind == "function"
    if (drop := budget.task_drop) is not None and function:
        limits["function"] = drop, f"budget.task_drop is {drop}"
    cosine = budget.cosine_mean
    if cosine is None and not limits:
        cosine = COSINE_MEAN
    if cosine is not None:
        limits["cosine"] = _complement(cosine), f"budget.cosine_mean is {cosine}"
    return limits


def _complement(share: float) -> float:
    """1 less a share as it is written: in floats, ``1 - 0.9`` is less than one of ten."""
    return float(1 - Decimal(repr(share)))
