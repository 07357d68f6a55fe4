"""The range of a tensor, chosen by what it does to the layers that read it.

A candidate is judged on a sample of the tensor's rows by the error of the layers' outputs: of
``dequantize(quantize(x)) @ W_q`` against ``x @ W``, both weights and activations quantized. It is
computed only for those that an estimate makes promising.

Rows differ in what depends on them: attention in all of a text may hang on its first token. So a
candidate must not ruin the rows that reach farthest either, few though they may be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantflow.numerics.quantize import QuantParams, activation_params
from quantflow.ranges.bounds import Bounds
from quantflow.ranges.judge import Judge, judge_of
from quantflow.ranges.views import Reader

DEFAULT = "minmax"
"""The candidate that is kept unless another one is clearly better."""

MIN_GAIN = 0.2
"""Least relative gain for which the default is left: the sample is small, and a range that clips
little of it may clip more of the data to come."""

MOST_WORSE = 8.0
"""Most that the rows which reach farthest may lose, as a multiple of their error by the default or
of that of all rows. On MiniLM limits of 4, 8 and 16 served alike; ranges that clipped the first
token of every text, which cost two points of cosine, made those rows 20 to 80 times worse."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What candidates are tried on: some rows, and the layers that read such rows.

    Attributes:
        rows: ``(R, K)`` float32, finite.
        readers: weights of the layers, at least one.
        weights: ``(R,)``, how much each row counts; None where all count alike.
        farthest: ``(r, K)`` each, rows chosen for how far they reach.
    """

    rows: NDArray[np.float32]
    readers: Sequence[Reader]
    weights: NDArray[np.float64] | None = None
    farthest: Sequence[NDArray[np.float32]] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen candidate: its name, bounds, and why in one sentence."""

    name: str
    bounds: Bounds
    reason: str


def choose(trials: Sequence[Trial], candidates: Mapping[str, Bounds], *, symmetric: bool) -> Choice:
    """Choose the range with the least output error.

    Args:
        trials: one for each way in which layers read the tensor; none where no layer has a weight.
        candidates: bounds by name; one of them is called `DEFAULT`.
        symmetric: whether activations have zero point 0.

    Returns:
        The candidate of least error among those that do not make the farthest rows `MOST_WORSE`
        times worse, but the default one unless the gain is `MIN_GAIN` or more. Without rows, or
        with rows that all give zero outputs, the default one.
    """
    if not trials:
        return Choice(DEFAULT, candidates[DEFAULT], "no layer that reads it has a weight")
    judges, params = _judges(trials), _params(candidates, symmetric)
    far, ruined = list[Judge](), list[str]()
    while True:
        errors = _promising_errors(judges, params)
        default = errors[DEFAULT]
        best = min(errors, key=errors.__getitem__)
        gain = 1 - errors[best] / default if default > 0 else 0.0
        if gain < MIN_GAIN:
            reason = f"no other range lowers the output error by {MIN_GAIN:.0%} (best: {gain:.0%})"
            if ruined:
                reason += f"; {', '.join(ruined)} would ruin the rows that reach farthest"
            return Choice(DEFAULT, candidates[DEFAULT], reason)
        far = far or _judges([Trial(rows, x.readers) for x in trials for rows in x.farthest])
        if not _ruins(far, params[best], params[DEFAULT], default):
            reason = f"output error {gain:.0%} below that of {DEFAULT}"
            return Choice(best, candidates[best], reason)
        ruined.append(best)
        del params[best]


def _ruins(far: Sequence[Judge], params: QuantParams, default: QuantParams, usual: float) -> bool:
    """Whether a candidate makes any kind of far rows much worse than the default one does.

    Args:
        far: by each kind of rows.
        params, default: of the candidate and of the default one.
        usual: error of the default one on all rows.
    """
    errors = [judge.errors([default, params]) for judge in far]
    return any(after > MOST_WORSE * max(before, usual) for before, after in errors)


def output_errors(
    trials: Sequence[Trial], candidates: Mapping[str, Bounds], *, symmetric: bool
) -> dict[str, float]:
    """Output error of every candidate: the mean over rows of ``||error||^2 / ||output||^2``.

    Rows count by weight, not by size, since what follows a layer usually normalises them. Rows
    whose output is zero are left out. The outputs of all layers that read a row are one vector;
    where layers read the tensor in different ways, the result is the mean of their errors. The
    arguments are those of `choose`.
    """
    judges, params = _judges(trials), _params(candidates, symmetric)
    return dict(zip(params, _errors(judges, list(params.values())), strict=True))


def _promising_errors(
    judges: Sequence[Judge], params: Mapping[str, QuantParams]
) -> dict[str, float]:
    """Errors of the default candidate and of those that may be the best, by way of estimates.

    Where not even the estimates promise half of the gain that is asked for, they are the result.
    """
    estimates = {
        name: sum(judge.estimate(each) for judge in judges) / max(len(judges), 1)
        for name, each in params.items()
    }
    # The default one first, that of several candidates with the same parameters its name is told.
    ordered = sorted(estimates, key=lambda x: (estimates[x], x != DEFAULT))
    if estimates[ordered[0]] > (1 - MIN_GAIN / 2) * estimates[DEFAULT]:
        return estimates
    (default, least) = _errors(judges, [params[DEFAULT], params[ordered[0]]])
    errors = {DEFAULT: default, ordered[0]: least}
    for name in ordered[1:]:
        # An estimate is too low where much is clipped, else within 2% on the models measured.
        if estimates[name] >= min(errors.values()):
            break
        if name not in errors and params[name] not in {params[x] for x in errors}:
            (errors[name],) = _errors(judges, [params[name]])
    return errors


def _judges(trials: Sequence[Trial]) -> list[Judge]:
    judges = [judge_of(x.rows, x.readers, x.weights) for x in trials if len(x.rows)]
    return [judge for judge in judges if len(judge.rows)]


def _params(candidates: Mapping[str, Bounds], symmetric: bool) -> dict[str, QuantParams]:
    return {
        name: activation_params(*bounds, symmetric=symmetric) for name, bounds in candidates.items()
    }


def _errors(judges: Sequence[Judge], params: Sequence[QuantParams]) -> list[float]:
    if not judges:
        return [0.0] * len(params)
    return np.mean([judge.errors(params) for judge in judges], axis=0).tolist()
