"""Lowered model and QDQ twin, cut at one quantized tensor: its readers, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Layer
from quantflow.artifacts.weight_file import array_of
from quantflow.config import RuntimeConfig
from quantflow.errors import fail
from quantflow.export.exact_product import exact_product
from quantflow.export.part import Whole, part_between
from quantflow.graph.edit import constant
from quantflow.graph.kinds.table import channel_axis, weight_from_matrix, weight_matrix
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.runner import Runner


@dataclass(frozen=True, slots=True)
class LayerRun:
    """What both models made of one layer.

    Attributes:
        layer: its name.
        output, twin_output: float32 of the lowered layer and of the twin's.
        accumulator: int32 of the lowered layer, bias included, of the same shape.
        quantized: int8 that the lowered layer reads, an array an input.
        twin_quantized: int8 that the twin's layer reads, likewise.
    """

    layer: str
    output: NDArray[np.float32]
    twin_output: NDArray[np.float32]
    accumulator: NDArray[np.int32]
    quantized: tuple[NDArray[np.int8], ...]
    twin_quantized: tuple[NDArray[np.int8], ...]


@dataclass(frozen=True, slots=True)
class _TwinInput:
    """One quantized tensor: the twin's factors, and where both models hold its integers."""

    scale: float
    zero_point: int
    twin: str
    lowered: str


@dataclass(frozen=True, slots=True)
class _TwinLayer:
    """One layer: its quantized inputs, the twin's constants, and the lowered accumulator's name.

    The weight is in its own shape, the bias ``(N,)``.
    """

    layer: Layer
    inputs: tuple[_TwinInput, ...]
    node: ir.Node
    weight: NDArray[np.int8] | None
    bias: NDArray[np.int32] | None
    accumulator: str


@dataclass(frozen=True, slots=True)
class TensorCut:
    """Both models between one float tensor and the outputs of the layers that quantize it.

    Attributes:
        tensors: what the cut models read: the tensor, and what its readers multiply it by.
        lowered, twin: runners of the cut models.
    """

    tensors: tuple[str, ...]
    lowered: Runner
    twin: Runner
    _layers: tuple[_TwinLayer, ...]

    def run(self, values: Mapping[str, NDArray[np.float32]]) -> Iterator[LayerRun]:
        """Run both on float tensors of the static shapes."""
        feeds = {name: values[name] for name in self.tensors}
        ours, theirs = self.lowered.run(feeds), self.twin.run(feeds)
        for entry in self._layers:
            yield LayerRun(
                layer=entry.layer.name,
                output=ours[entry.layer.output],
                twin_output=theirs[entry.layer.output],
                accumulator=ours[entry.accumulator],
                quantized=tuple(_as_int8(ours[x.lowered], x.zero_point) for x in entry.inputs),
                twin_quantized=tuple(theirs[x.twin] for x in entry.inputs),
            )

    def exact_accumulator(self, run: LayerRun) -> NDArray[np.float64]:
        """``product(q - z) + b`` from the twin's integers and the lowered layer's int8 inputs."""
        entry = self._entry(run.layer)
        steps = [
            quantized.astype(np.float64) - source.zero_point
            for quantized, source in zip(run.quantized, entry.inputs, strict=True)
        ]
        return exact_product(entry.node, steps, entry.weight, entry.bias)

    def macs(self, run: LayerRun) -> int:
        """About how many multiply-accumulates `exact_accumulator` takes."""
        entry, size = self._entry(run.layer), run.quantized[0].size
        channels = run.quantized[0].shape[channel_axis(entry.layer)]
        return size if entry.weight is None else size * entry.weight.size // max(channels, 1)

    def tensors_of(self, layer: str) -> list[str]:
        """The float tensor behind every input of a layer."""
        found = self._entry(layer).layer
        return [found.input, found.second_input] if found.second_input else [found.input]

    def scales(self, layer: str) -> list[float]:
        """The twin's scale of every input of a layer."""
        return [source.scale for source in self._entry(layer).inputs]

    def _entry(self, layer: str) -> _TwinLayer:
        return next(entry for entry in self._layers if entry.layer.name == layer)


def cut_tensor(
    tensor: str,
    layers: Sequence[Layer],
    lowered: Whole,
    twin: Whole,
    config: RuntimeConfig | None,
) -> TensorCut:
    """Cut both models at `tensor`.

    Args:
        tensor: name of a float tensor.
        layers: the INT8 layers whose input it is.
        lowered: the lowered deploy model.
        twin: the QDQ twin.
        config: how to run.
    """
    entries = tuple(_twin_layer(lowered, twin, layer) for layer in layers)
    seconds = (layer.second_input for layer in layers if layer.second_input)
    tensors = tuple(dict.fromkeys([tensor, *seconds]))
    outputs = [layer.output for layer in layers]
    own = [entry.accumulator for entry in entries]
    own += [source.lowered for entry in entries for source in entry.inputs]
    others = [source.twin for entry in entries for source in entry.inputs]
    return TensorCut(
        tensors=tensors,
        lowered=_runner(lowered, tensors, [*outputs, *own], config),
        # Unoptimized, for fused kernels compute DequantizeLinear and MatMul in integers again.
        twin=_runner(twin, tensors, [*outputs, *others], config, optimize=False),
        _layers=entries,
    )


def _as_int8(array: NDArray[Any], zero_point: int) -> NDArray[np.int8]:
    """int8 values from either form of a lowered input: shifted to uint8, or less the zero point."""
    shift = -128 if array.dtype == np.uint8 else zero_point
    return (array.astype(np.int16) + shift).astype(np.int8)


def _runner(
    whole: Whole,
    tensors: Sequence[str],
    outputs: Sequence[str],
    config: RuntimeConfig | None,
    *,
    optimize: bool = True,
) -> Runner:
    return OnnxRuntimeRunner(part_between(whole, tensors, outputs), config, optimize=optimize)


def _accumulator(lowered: Whole, layer: Layer) -> str:
    """The int32 value that ``Cast -> Mul`` turns into the layer's output."""
    value = _source(_source(lowered.values.get(layer.output)).inputs[0]).inputs[0]
    assert value is not None
    return str(value.name)


def _twin_layer(lowered: Whole, twin: Whole, layer: Layer) -> _TwinLayer:
    node = twin.nodes[layer.node]
    bias = twin.nodes[layer.bias_node].inputs[1] if layer.bias_node else None
    if layer.bias and bias is None:
        bias = node.inputs[2]
    return _TwinLayer(
        layer=layer,
        inputs=tuple(
            _twin_input(node.inputs[index], lowered.nodes[layer.node].inputs[index])
            for index in range(2 if layer.second_input else 1)
        ),
        node=node,
        weight=_weight(node, layer) if layer.weight else None,
        bias=None if bias is None else _array(_source(bias).inputs[0]),
        accumulator=_accumulator(lowered, layer),
    )


def _twin_input(dequantized: ir.Value | None, lowered: ir.Value | None) -> _TwinInput:
    quantize = _source(_source(dequantized).inputs[0])
    assert lowered is not None
    return _TwinInput(
        scale=float(_array(quantize.inputs[1])),
        zero_point=int(_array(quantize.inputs[2])),
        twin=str(quantize.outputs[0].name),
        lowered=str(lowered.name),
    )


def _weight(node: ir.Node, layer: Layer) -> NDArray[np.int8]:
    """The twin's int8 weight in the shape that the node reads it in."""
    source = _source(node.inputs[1])
    while source.op_type in ("Reshape", "Transpose"):
        source = _source(source.inputs[0])
    stored = _array(source.inputs[0])
    if source is _source(node.inputs[1]):
        return stored
    matrix = weight_matrix(stored, "Conv", 1)
    groups = node.attributes.get_int("group", 1)
    channels, kernel = stored.shape[1] * groups, stored.shape[2:]
    shape = (channels, len(stored) // groups, *kernel)
    return weight_from_matrix(matrix, shape, layer.op_type, groups)


def _source(value: ir.Value | None) -> ir.Node:
    node = value.producer() if value is not None else None
    if node is None:
        fail(
            "QF543",
            f"{value.name if value else 'a value'!r} is not computed where a layer should be",
            fix="rerun `quantflow export-onnx`",
        )
    return node


def _array(value: ir.Value | None) -> NDArray[Any]:
    tensor = constant(value)
    if tensor is None:
        fail("QF543", "an INT8 layer of the QDQ twin has a factor that is no constant")
    return np.asarray(array_of(tensor))
