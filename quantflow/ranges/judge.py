"""The error that a quantized activation makes in the outputs of the layers that read it.

The error of a row x is ``e W_q + x d``, where e is what quantization adds to the row, and d what it
adds to the weights. Its squared length is computed in full, or estimated without a product of
matrices as ``sum_k e_k^2 ||W_q[k]||^2 + x_k^2 ||d[k]||^2``: the terms left out have either sign,
and cancel but where many values of a row are clipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantflow.numerics.quantize import QMAX, QMIN, QuantParams, weight_scales
from quantflow.ranges.views import Reader

Floats = NDArray[np.float32]

MOST_COLUMNS = 4096
"""Columns of a weight that are looked at; of a wider one (a head over a vocabulary), every n-th."""


@dataclass(frozen=True, slots=True)
class _Block:
    """Layers whose rows fall into equally many parts.

    Attributes:
        weight: ``(G, K, N)`` float32, the weights as quantized, side by side.
        output: ``(G, R, N)`` float32, what the float weights make of the rows, divided by the
            length of the row's whole output.
    """

    weight: Floats
    output: Floats


@dataclass(frozen=True, slots=True)
class Judge:
    """Rows, and what layers make of them.

    Attributes:
        rows: ``(R, K)`` float32, those whose output is finite and not zero.
        inverse: ``(R,)`` float64, one over the length of a row's output, times the square root of
            its weight.
        blocks: the layers.
        squares: ``(K,)`` float64, squared lengths of the rows of all quantized weights.
        weight_noise: sum over the rows of the estimated share that the weights have in the error.
        total: sum of the rows' weights.
    """

    rows: Floats
    inverse: NDArray[np.float64]
    blocks: Sequence[_Block]
    squares: NDArray[np.float64]
    weight_noise: float
    total: float

    def errors(self, params: Sequence[QuantParams]) -> NDArray[np.float64]:
        """Weighted means over the rows of ``||error||^2 / ||output||^2``, ``(P,)`` float64."""
        count, depth = self.rows.shape
        quantized = np.empty((len(params), count, depth), np.float32)
        for number, each in enumerate(params):
            _quantized_rows(self.rows, each, self.inverse, quantized[number])
        total = np.zeros(len(params))
        for block in self.blocks:
            groups, _, width = block.weight.shape
            rows = quantized.reshape(-1, groups, depth // groups)
            error = _product(rows, block.weight).reshape(groups, len(params), count, width)
            error -= block.output[:, None]
            # Errors are relative by now, so that their squares stay in the range of float32.
            total += np.einsum("gprn,gprn->p", error, error)
        return total / self.total

    def estimate(self, params: QuantParams) -> float:
        """The same for one quantizer, estimated."""
        size = np.sqrt(self.squares.mean()) or 1.0  # brings errors and weights to about 1
        error = np.empty_like(self.rows)
        _quantized_rows(self.rows, params, self.inverse * size, error)
        error -= self.rows * (self.inverse * size).astype(np.float32)[:, None]
        np.square(error, out=error)
        total = error @ (self.squares / size**2).astype(np.float32)
        return (float(total.sum(dtype=np.float64)) + self.weight_noise) / self.total


def judge_of(
    rows: Floats, readers: Sequence[Reader], counts_as: NDArray[np.float64] | None = None
) -> Judge:
    """Judge by ``(R, K)`` rows and the layers that multiply them.

    Args:
        rows: of the tensor.
        readers: the layers.
        counts_as: ``(R,)`` weights of the rows; None where all count alike.
    """
    share = np.ones(len(rows)) if counts_as is None else counts_as
    by_groups = dict[int, list[Reader]]()
    for each in readers:
        by_groups.setdefault(len(each.weight), []).append(_thinned(each))
    outputs, power = list[Floats](), np.zeros(len(rows))
    squares, noises = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    weights = list[Floats]()
    for groups, some in by_groups.items():
        weight = _side_by_side([x.weight for x in some])
        quantized = _side_by_side([quantized_weight(x) for x in some])
        with np.errstate(over="ignore", invalid="ignore"):  # such rows do not count
            output = _product(rows.reshape(len(rows), groups, -1), weight)
            power += np.einsum("grn,grn->r", output, output, dtype=np.float64)
        squares += _row_squares(quantized)
        noises += _row_squares(quantized - weight)
        outputs.append(output)
        weights.append(quantized)
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.sqrt(share) / np.sqrt(power)
    counts = (inverse > 0) & (inverse <= np.finfo(np.float32).max)
    if not counts.all():
        rows, inverse, share = rows[counts], inverse[counts], share[counts]
        outputs = [output[:, counts] for output in outputs]
    for output in outputs:
        output *= inverse.astype(np.float32)[:, None]
    blocks = [_Block(*pair) for pair in zip(weights, outputs, strict=True)]
    relative = rows * inverse.astype(np.float32)[:, None]
    weight_noise = float(np.einsum("rk,rk,k->", relative, relative, noises))
    return Judge(rows, inverse, blocks, squares, weight_noise, float(share.sum()))


def quantized_weight(each: Reader) -> Floats:
    """The float32 weight that the quantized one stands for, of the same shape."""
    groups, depth, width = each.weight.shape
    weight = each.weight.reshape(groups, depth, width // each.taps, each.taps)
    axes = (1, 3) if each.per_channel else (0, 1, 2, 3)
    absmax = np.maximum(weight.max(axis=axes), -weight.min(axis=axes))
    scales = weight_scales(absmax.reshape(1, -1), 1)
    scales = scales.reshape(groups, 1, -1, 1) if each.per_channel else scales.reshape(1, 1, 1, 1)
    result = weight / scales
    np.rint(result, out=result)
    np.clip(result, -QMAX, QMAX, out=result)
    result *= scales
    return result.reshape(groups, depth, width)


def _quantized_rows(
    rows: Floats, params: QuantParams, factor: NDArray[np.float64], out: Floats
) -> None:
    """``dequantize(quantize(rows))``, each row times a factor, without integers in between."""
    with np.errstate(over="ignore"):  # infinity saturates like any large value
        np.multiply(rows, params.multiplier, out=out)
    np.rint(out, out=out)
    np.clip(out, QMIN - params.zero_point, QMAX - params.zero_point, out=out)
    out *= (factor * params.scale).astype(np.float32)[:, None]


def _row_squares(weight: Floats) -> NDArray[np.float64]:
    """``(G, K, N)`` to the ``(G * K,)`` squared lengths of its rows."""
    found = np.einsum("gkn,gkn->gk", weight, weight).reshape(-1)
    if np.isfinite(found).all():
        return found.astype(np.float64)
    return np.einsum("gkn,gkn->gk", weight, weight, dtype=np.float64).reshape(-1)


def _product(rows: Floats, weight: Floats) -> Floats:
    """``(R, G, K)`` rows times ``(G, K, N)``, part by part: ``(G, R, N)``."""
    if len(weight) == 1:
        return (rows[:, 0] @ weight[0])[None]
    return rows.transpose(1, 0, 2) @ weight


def _side_by_side(weights: Sequence[Floats]) -> Floats:
    """All columns in one ``(G, K, N)`` array; no copy of a single one."""
    return weights[0] if len(weights) == 1 else np.concatenate(weights, axis=2)


def _thinned(each: Reader) -> Reader:
    """The layer, or every n-th output channel of it where it is very wide."""
    groups, depth, width = each.weight.shape
    step = -(-groups * width // MOST_COLUMNS)
    if step < 2 or width // each.taps < 2:
        return each
    weight = each.weight.reshape(groups, depth, width // each.taps, each.taps)[:, :, ::step]
    return Reader(weight.reshape(groups, depth, -1), each.taps, each.per_channel)
