"""A static model in segments, each ready to run with any of its groups in INT8.

Quantized groups run as the deploy model would have them, lowered to integer operators, or with only
one side quantized, as fake quantization; all else is float32. Sessions are made when first needed
and the least recently used ones are dropped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.model_record import ModelRecord
from quantflow.config import RuntimeConfig
from quantflow.export.deploy import deploy_model
from quantflow.export.int8_weights import NEAREST, Int8Weights
from quantflow.export.lowering import lower
from quantflow.export.qdq import Side, qdq_model
from quantflow.graph.segments import find_segments, segment_model
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.runner import Runner

Values = dict[str, NDArray[Any]]


class SegmentedModel:
    """Runs a bucket segment by segment.

    Args:
        model: the static float model.
        record: its layers and groups.
        factors: of every layer, as if all groups were INT8.
        fp19: whether the chip truncates dequantization scales.
        runtime: how to run.
        weights: of layers that are not rounded to the nearest.
        sessions: how many variants beyond two a segment may be kept.
    """

    def __init__(
        self,
        model: ir.Model,
        record: ModelRecord,
        factors: Sequence[LayerFactors],
        *,
        fp19: bool,
        runtime: RuntimeConfig,
        weights: Int8Weights = NEAREST,
        sessions: int = 16,
    ) -> None:
        self.segments = find_segments(model, record)
        self._outputs = [str(value.name) for value in model.graph.outputs]
        self._parts = [segment_model(model, segment) for segment in self.segments]
        self._record = record
        self._factors = {entry.layer: entry for entry in factors}
        self._weights = weights
        self._fp19 = fp19
        self._runtime = runtime
        self._limit = 2 * len(self.segments) + sessions
        self._runners: OrderedDict[tuple[int, frozenset[str], Side | None], Runner] = OrderedDict()
        self._later = _needed_later([segment.inputs for segment in self.segments])

    @property
    def groups(self) -> frozenset[str]:
        """Names of all groups."""
        return frozenset(name for segment in self.segments for name in segment.groups)

    def run(
        self,
        values: Mapping[str, NDArray[Any]],
        int8: frozenset[str],
        *,
        start: int = 0,
        side: Side | None = None,
    ) -> Values:
        """Run from a segment to the end.

        Args:
            values: what is alive before segment `start`; for 0, the model's inputs.
            int8: names of the groups in INT8.
            start: number of the first segment.
            side: quantize only that side of them.

        Returns:
            The model's outputs.
        """
        alive = dict(values)
        for index in range(start, len(self.segments)):
            alive = self.step(alive, index, int8, side)
        return alive

    def step(
        self,
        values: Mapping[str, NDArray[Any]],
        index: int,
        int8: frozenset[str],
        side: Side | None = None,
    ) -> Values:
        """Run one segment.

        Args:
            values: what is alive before it.
            index: its number.
            int8: names of the groups in INT8, here or elsewhere.
            side: quantize only that side of them.

        Returns:
            What is alive after it.
        """
        segment = self.segments[index]
        runner = self._runner(index, int8 & frozenset(segment.groups), side)
        made = runner.run({name: values[name] for name in segment.inputs})
        alive = {**values, **made}
        if index + 1 == len(self.segments):
            return {name: alive[name] for name in self._outputs}
        return {name: value for name, value in alive.items() if name in self._later[index + 1]}

    def _runner(self, index: int, int8: frozenset[str], side: Side | None) -> Runner:
        key = (index, int8, side if int8 else None)
        if key not in self._runners:
            variant = self._variant(*key)
            self._runners[key] = OnnxRuntimeRunner(
                variant,
                self._runtime,
                # onnxruntime would quantize the weights of a convolution that reads a QDQ pair.
                optimize=side is None or not int8,
                shared=True,
            )
            while len(self._runners) > self._limit:
                self._runners.popitem(last=False)
        self._runners.move_to_end(key)
        return self._runners[key]

    def _variant(self, index: int, int8: frozenset[str], side: Side | None) -> ir.Model:
        part = self._parts[index]
        layers = tuple(x for x in self._record.layers if x.group in int8)
        if not layers:
            return part
        record = self._record.model_copy(update={"layers": layers})
        factors = [self._factors[layer.name] for layer in layers]
        if side is not None:
            return qdq_model(part, record, factors, side, self._weights)
        deploy = deploy_model(part, record, factors, self._weights)
        return lower(deploy, fp19=self._fp19, emulate_fp16=False, islands=frozenset())


def _needed_later(inputs: Sequence[Sequence[str]]) -> list[frozenset[str]]:
    """For every segment, the values that it or a later one reads."""
    needed = list[frozenset[str]]()
    later = frozenset[str]()
    for names in reversed(inputs):
        later |= frozenset(names)
        needed.append(later)
    return needed[::-1]
