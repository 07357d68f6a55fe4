"""Parity: the deploy file computes, layer by layer, what its QDQ twin computes.

Rounding flips grow along an INT8 network, so that whole networks cannot be compared element by
element. Here both models are cut at the tensors that are quantized, and every layer of both reads
the same float tensor, taken from the float model. FP19 and fp16 rounding are off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.export_record import LayerFactors, LayerParity, ParityReport
from quantflow.artifacts.model_record import ModelRecord
from quantflow.config import RuntimeConfig
from quantflow.export.lowering import lower
from quantflow.export.parity_cut import LayerRun, TensorCut, cut_tensor
from quantflow.graph.edit import with_outputs
from quantflow.graph.model_io import model_bytes
from quantflow.numerics.error_metrics import cosine
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.runner import Feeds

LEAST_COSINE = 0.99999
LEAST_EQUAL_FRACTION = 0.99999

_TIE_MARGIN = 2.0**-22
"""How far from a rounding tie, relative to the value, AscendQuant and QuantizeLinear may disagree:
the reciprocal, the product and the quotient are each off by up to 2^-24."""


def parity(
    bucket: ir.Model,
    deploy: ir.Model,
    qdq: ir.Model,
    record: ModelRecord,
    factors: Sequence[LayerFactors],
    batches: Iterable[Feeds],
    config: RuntimeConfig | None = None,
) -> ParityReport:
    """Compare every INT8 layer of a deploy model with its QDQ twin.

    Args:
        bucket: the float model that both were made from.
        deploy, qdq: the deploy model and its twin.
        record: layers of the model.
        factors: of every layer.
        batches: feeds of the bucket; a few do, since every element of every layer is compared.
        config: how to run.

    Returns:
        Per layer the least cosine over the batches, and the verdict. A share of equal int8 inputs
        below 99.999% is no failure where all that differ lie next to a rounding tie, one step
        apart: in a small tensor a single one of them is more than 0.001%.
    """
    int8 = {entry.layer for entry in factors if entry.precision == "int8"}
    layers = [layer for layer in record.layers if layer.name in int8]
    if not layers:
        return ParityReport(verdict="pass", cosine_min=1.0, layers=())
    lowered = lower(deploy, fp19=False, emulate_fp16=False, islands=frozenset())
    tensors = list(dict.fromkeys(layer.input for layer in layers))
    cuts = [
        cut_tensor(tensor, [x for x in layers if x.input == tensor], lowered, qdq, config)
        for tensor in tensors
    ]
    tallies = {layer.name: _Tally() for layer in layers}
    source = OnnxRuntimeRunner(model_bytes(with_outputs(bucket, tensors)), config)
    for feeds in batches:
        inputs = source.run(feeds)
        for cut in cuts:
            _compare(cut, inputs[cut.tensor], tallies)
    return _report(tallies)


@dataclass(slots=True)
class _Tally:
    """What has been seen of one layer.

    Attributes:
        cosine: the least so far.
        exact: whether every accumulator agreed.
        elements, unequal, unexplained: int8 inputs, how many differ, and how many of those no
            rounding tie explains.
    """

    cosine: float = 1.0
    exact: bool = True
    elements: int = 0
    unequal: int = 0
    unexplained: int = 0

    def equal_fraction(self) -> float:
        return 1.0 - self.unequal / self.elements if self.elements else 1.0

    def passed(self) -> bool:
        equal = self.equal_fraction() >= LEAST_EQUAL_FRACTION or not self.unexplained
        return self.cosine >= LEAST_COSINE and self.exact and equal


def _compare(cut: TensorCut, x: NDArray[np.float32], tallies: dict[str, _Tally]) -> None:
    for run in cut.run(x):
        tally = tallies[run.layer]
        value = float(cosine(run.twin_output[None], run.output[None])[0])
        # A NaN must not pass for a good cosine.
        tally.cosine = min(tally.cosine, value if np.isfinite(value) else -1.0)
        tally.exact &= bool(np.array_equal(run.accumulator, cut.exact_accumulator(run)))
        tally.elements += x.size
        different = run.quantized != run.twin_quantized
        tally.unequal += int(different.sum())
        tally.unexplained += _unexplained(run, x, cut.scale, different)


def _unexplained(
    run: LayerRun, x: NDArray[np.float32], scale: float, different: NDArray[np.bool_]
) -> int:
    """Number of differing elements that are not one step apart next to a rounding tie."""
    steps = np.abs(x[different].astype(np.float64) / scale)
    apart = run.quantized[different].astype(np.int64) - run.twin_quantized[different]
    near_tie = np.abs(steps - np.floor(steps) - 0.5) <= steps * _TIE_MARGIN
    return int((~near_tie | (np.abs(apart) > 1)).sum())


def _report(tallies: dict[str, _Tally]) -> ParityReport:
    rows = tuple(
        LayerParity(
            layer=name,
            cosine=tally.cosine,
            int32_exact=tally.exact,
            int8_equal_fraction=tally.equal_fraction(),
        )
        for name, tally in tallies.items()
    )
    passed = all(tally.passed() for tally in tallies.values())
    return ParityReport(
        verdict="pass" if passed else "fail",
        cosine_min=min(row.cosine for row in rows),
        layers=rows,
    )
