"""Parity: the deploy file computes, layer by layer, what its QDQ twin computes.

Rounding flips grow along an INT8 network, so that whole networks cannot be compared element by
element. Here both models are cut at the tensors that are quantized, and every layer of both reads
the same float tensor, taken from the float model. FP19 and fp16 rounding are off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.export_record import LayerFactors, LayerParity, ParityReport
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.scratch import ArrayFile
from quantflow.config import RuntimeConfig
from quantflow.export.lowering import lower
from quantflow.export.parity_cut import TensorCut, cut_tensor
from quantflow.export.part import Whole
from quantflow.graph.edit import with_outputs
from quantflow.numerics.error_metrics import cosine
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.runner import Feeds

LEAST_COSINE = 0.99999
LEAST_EQUAL_FRACTION = 0.99999

EXACT_MACS = 2**27
"""Multiply-accumulates of one layer that are done again in numpy before its remaining batches are
spared that. The first batch never is."""

ENOUGH_ELEMENTS = 2**19
"""Elements of a tensor after which no more batches are compared for the layers that read it.

Five of them are the 0.001% that may differ."""

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
        batches: feeds of the bucket; a few do, since every element of every layer is compared. Of
            large tensors only the first batches are.
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
    lowered = Whole.of(lower(deploy, fp19=False, emulate_fp16=False, islands=frozenset()))
    twin = Whole.of(qdq)
    tensors = list(dict.fromkeys(layer.input for layer in layers))
    seconds = [layer.second_input for layer in layers if layer.second_input]
    inputs, counts = _inputs(bucket, [*tensors, *seconds], batches, config)
    tallies = {layer.name: _Tally() for layer in layers}
    for tensor in tensors:  # one after the other, for each takes memory
        readers = [layer for layer in layers if layer.input == tensor]
        cut = cut_tensor(tensor, readers, lowered, twin, config)
        for number in range(min(counts[name] for name in cut.tensors)):
            _compare(cut, {name: inputs[name, number] for name in cut.tensors}, tallies)
    return _report(tallies)


def _inputs(
    bucket: ir.Model,
    tensors: Sequence[str],
    batches: Iterable[Feeds],
    config: RuntimeConfig | None,
) -> tuple[ArrayFile, Mapping[str, int]]:
    """The float tensors by name and number of the batch, and how many batches of each there are."""
    found, counts, elements = ArrayFile(), Counter[str](), Counter[str]()
    source = OnnxRuntimeRunner(with_outputs(bucket, list(dict.fromkeys(tensors))), config)
    for feeds in batches:
        if counts and all(elements[name] >= ENOUGH_ELEMENTS for name in tensors):
            break
        for name, array in source.run(feeds).items():
            if elements[name] < ENOUGH_ELEMENTS:
                found.add((name, counts[name]), array)
                counts[name] += 1
                elements[name] += array.size
    return found, counts


@dataclass(slots=True)
class _Tally:
    """What has been seen of one layer.

    Attributes:
        cosine: the least so far.
        exact: whether every accumulator that was compared agreed.
        macs: multiply-accumulates of the compared ones.
        elements, unequal, unexplained: int8 inputs, how many differ, and how many of those no
            rounding tie explains.
    """

    cosine: float = 1.0
    exact: bool = True
    macs: int = 0
    elements: int = 0
    unequal: int = 0
    unexplained: int = 0

    def equal_fraction(self) -> float:
        return 1.0 - self.unequal / self.elements if self.elements else 1.0

    def passed(self) -> bool:
        equal = self.equal_fraction() >= LEAST_EQUAL_FRACTION or not self.unexplained
        return self.cosine >= LEAST_COSINE and self.exact and equal


def _compare(
    cut: TensorCut, inputs: Mapping[str, NDArray[np.float32]], tallies: dict[str, _Tally]
) -> None:
    for run in cut.run(inputs):
        tally = tallies[run.layer]
        value = float(cosine(run.twin_output[None], run.output[None])[0])
        # A NaN must not pass for a good cosine.
        tally.cosine = min(tally.cosine, value if np.isfinite(value) else -1.0)
        if tally.macs < EXACT_MACS:
            tally.exact &= bool(np.array_equal(run.accumulator, cut.exact_accumulator(run)))
            tally.macs += cut.macs(run)
        for name, ours, theirs, scale in zip(
            cut.tensors_of(run.layer),
            run.quantized,
            run.twin_quantized,
            cut.scales(run.layer),
            strict=True,
        ):
            different = ours != theirs
            tally.elements += ours.size
            tally.unequal += int(different.sum())
            steps = inputs[name][different].astype(np.float64) / scale
            tally.unexplained += _unexplained(steps, ours[different], theirs[different])


def _unexplained(
    steps: NDArray[np.float64], ours: NDArray[np.int8], theirs: NDArray[np.int8]
) -> int:
    """How many differing elements, of these values, are not one step apart next to a tie."""
    steps = np.abs(steps)
    apart = ours.astype(np.int64) - theirs
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
