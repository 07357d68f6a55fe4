"""Rows that one layer reads, as float and as INT8 makes them, and what the layer makes of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantflow.numerics.quantize import QuantParams, dequantize, quantize

Floats = NDArray[np.float32]


LEAST_POWER = 1e-3
"""A row with a smaller output, as a share of the median row's squared length, counts as if it were
that large: no single row decides."""


@dataclass(frozen=True, slots=True)
class LayerInputs:
    """A sample of what a layer reads. A layer of G groups multiplies each row's parts apart.

    Attributes:
        exact: ``(G, R, K)`` float32.
        quantized: the same after quantization and dequantization.
        output: ``(G, R, N)`` float32, what the float weight makes of `exact`.
        weights: ``(R,)`` float64, how much a row counts: the inverse of its output's squared
            length, since what follows a layer usually normalises it; see `LEAST_POWER`.
    """

    exact: Floats
    quantized: Floats
    output: Floats
    weights: NDArray[np.float64]

    def moments(self) -> NDArray[np.float64]:
        """``(G, K, K)`` second moments of the quantized rows, as weighted, up to a factor."""
        share = self.weights / self.weights.max()
        rows = self.quantized * np.sqrt(share).astype(np.float32)[:, None]
        return (rows.transpose(0, 2, 1) @ rows).astype(np.float64)

    def error(self, weight: Floats) -> Floats:
        """``(G, R, N)`` what is lacking with a weight ``(G, K, N)`` on quantized rows."""
        product: Floats = self.quantized @ weight
        return self.output - product

    def mean(self, error: Floats) -> Floats:
        """``(G, N)`` mean over the rows, as weighted."""
        share = self.weights / self.weights.sum()
        return np.einsum("r,grn->gn", share, error).astype(np.float32)

    def size(self, error: Floats) -> float:
        """Mean over the rows of ``||error||^2``, as weighted: relative to ``||output||^2``."""
        squares = np.einsum("grn,grn->r", error, error, dtype=np.float64)
        return float(self.weights @ squares / len(squares))


def layer_inputs(rows: Floats, params: QuantParams, weight: Floats) -> LayerInputs | None:
    """Inputs from sampled rows; None where no row has an output other than zero.

    Args:
        rows: ``(R, G * K)`` float32, finite.
        params: what they are quantized with.
        weight: ``(G, K, N)`` float32.
    """
    groups, depth, _ = weight.shape
    exact = rows.reshape(len(rows), groups, depth).transpose(1, 0, 2)
    output = exact @ weight
    power = np.einsum("grn,grn->r", output, output, dtype=np.float64)
    counts = np.isfinite(power) & (power > 0)
    if not counts.any():
        return None
    power = power[counts]
    exact, weights = exact[:, counts], 1 / np.maximum(power, LEAST_POWER * np.median(power))
    quantized = dequantize(quantize(exact, params), params)
    return LayerInputs(exact, quantized, output[:, counts], weights)
