"""The range of a tensor, chosen by what it does to the layers that read it.

A candidate is judged on a sample of the tensor's rows by the error of the layers' outputs: of
``dequantize(quantize(x)) @ W_q`` against ``x @ W``, both weights and activations quantized.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from quantflow.numerics.quantize import (
    QuantParams,
    activation_params,
    dequantize,
    dequantize_weight,
    quantize,
    quantize_weight,
    weight_scales,
)
from quantflow.ranges.bounds import Bounds

DEFAULT = "minmax"
"""The candidate that is kept unless another one is clearly better."""

MIN_GAIN = 0.2
"""Least relative gain for which the default is left: the sample is small, and a range that clips
little of it may clip more of the data to come."""

_SHARES = (0.25, 0.5, 0.75, 1.0)
"""Shares of the rows after which a candidate may be left."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen candidate: its name, bounds, and why in one sentence."""

    name: str
    bounds: Bounds
    reason: str


def choose(
    rows: NDArray[np.float32],
    weights: Sequence[NDArray[np.float32]],
    candidates: Mapping[str, Bounds],
    *,
    symmetric: bool,
    per_channel: bool,
) -> Choice:
    """Choose the range with the least output error.

    Args:
        rows: ``(R, K)`` float32 rows of the tensor.
        weights: ``(K, N_i)`` float32 weight of every layer that reads it.
        candidates: bounds by name; one of them is called `DEFAULT`.
        symmetric: whether activations have zero point 0.
        per_channel: whether weights have one scale per output channel.

    Returns:
        The candidate of least error, but the default one unless the gain is `MIN_GAIN` or more.
        With no rows, or rows that all give zero outputs, the default one.
    """
    errors = output_errors(
        rows,
        weights,
        candidates,
        symmetric=symmetric,
        per_channel=per_channel,
        stop_early=True,
    )
    default = errors[DEFAULT]
    best = min(errors, key=errors.__getitem__)
    gain = 1 - errors[best] / default if default > 0 else 0.0
    if gain < MIN_GAIN:
        reason = f"no other range lowers the output error by {MIN_GAIN:.0%} (best: {gain:.0%})"
        return Choice(DEFAULT, candidates[DEFAULT], reason)
    return Choice(best, candidates[best], f"output error {gain:.0%} below that of {DEFAULT}")


def output_errors(
    rows: NDArray[np.float32],
    weights: Sequence[NDArray[np.float32]],
    candidates: Mapping[str, Bounds],
    *,
    symmetric: bool,
    per_channel: bool,
    stop_early: bool = False,
) -> dict[str, float]:
    """Output error of every candidate: the mean over rows of ``||error||^2 / ||output||^2``.

    Rows count alike whatever their size, since what follows a layer usually normalises them. Rows
    whose output is zero are left out. Other arguments are those of `choose`.

    Args:
        stop_early: leave a candidate as soon as the rows seen so far make its error larger than the
            least one found. Its figure then is what they make it, which is larger, too. The default
            candidate's is always complete.
    """
    weight = _side_by_side(weights)
    output = rows @ weight
    power = np.einsum("rn,rn->r", output, output, dtype=np.float64)
    if not (power > 0).all():
        rows, output, power = rows[power > 0], output[power > 0], power[power > 0]
    quantized = _side_by_side([_quantized(w, per_channel) for w in weights])
    judged = _Judge(rows, output, power, quantized)
    # Several candidates may come to the same parameters.
    params = {
        name: activation_params(*bounds, symmetric=symmetric) for name, bounds in candidates.items()
    }
    begun = {each: judged.noise(each, 0, judged.glimpse) for each in params.values()}
    errors = dict[QuantParams, float]()
    # The default one must be complete. After it, the more promising, the sooner.
    for each in sorted(begun, key=lambda x: (x != params.get(DEFAULT), begun[x])):
        limit = min(errors.values(), default=np.inf) if stop_early else np.inf
        errors[each] = judged.error(each, begun[each], limit)
    return {name: errors[each] for name, each in params.items()}


@dataclass(frozen=True, slots=True)
class _Judge:
    """What candidates are judged on.

    Attributes:
        rows: ``(R, K)`` float32.
        output: ``(R, N)`` float32, what the layers make of the rows.
        power: ``(R,)`` float64, squared length of the output, not zero.
        quantized: ``(K, N)`` float32, the weights as quantized.
    """

    rows: NDArray[np.float32]
    output: NDArray[np.float32]
    power: NDArray[np.float64]
    quantized: NDArray[np.float32]

    @property
    def glimpse(self) -> int:
        """Number of rows that all candidates see."""
        return ceil(len(self.rows) * _SHARES[0])

    def noise(self, params: QuantParams, start: int, end: int) -> float:
        """Sum of the relative errors of some rows."""
        rows, output = self.rows[start:end], self.output[start:end]
        error = dequantize(quantize(rows, params), params) @ self.quantized
        error -= output
        noise = np.einsum("rn,rn->r", error, error, dtype=np.float64)
        return float((noise / self.power[start:end]).sum())

    def error(self, params: QuantParams, glimpsed: float, limit: float) -> float:
        """Mean relative error, or what part of the rows makes it once that is over `limit`.

        Args:
            params: of the activation.
            glimpsed: sum over the rows that all candidates see.
            limit: an error from which on more rows need not be looked at.
        """
        total, start, count = glimpsed, self.glimpse, len(self.rows)
        for share in _SHARES[1:]:
            if total > limit * count:
                break
            end = ceil(count * share)
            total += self.noise(params, start, end)
            start = end
        return total / max(count, 1)


def _side_by_side(weights: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """All output channels in one ``(K, N)`` matrix; no copy of a single one."""
    return weights[0] if len(weights) == 1 else np.concatenate(weights, axis=1)


def _quantized(weight: NDArray[np.float32], per_channel: bool) -> NDArray[np.float32]:
    """The float32 weight that the quantized one stands for."""
    axis = 1 if per_channel else None
    scales = weight_scales(weight, axis)
    return dequantize_weight(quantize_weight(weight, scales, axis), scales, axis)
