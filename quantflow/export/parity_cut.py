"""Lowered model and QDQ twin, cut at one quantized tensor: its readers, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Layer
from quantflow.config import RuntimeConfig
from quantflow.errors import fail
from quantflow.graph.edit import constant, nodes_by_name, opset
from quantflow.graph.model_io import model_bytes
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.runner import Runner


@dataclass(frozen=True, slots=True)
class LayerRun:
    """What both models made of one layer.

    Attributes:
        layer: its name.
        output, twin_output: ``(..., N)`` float32 of the lowered layer and of the twin's.
        accumulator: ``(..., N)`` int32 of the lowered layer, bias included.
        quantized, twin_quantized: ``(..., K)`` int8 that the layer reads.
    """

    layer: str
    output: NDArray[np.float32]
    twin_output: NDArray[np.float32]
    accumulator: NDArray[np.int32]
    quantized: NDArray[np.int8]
    twin_quantized: NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class _TwinLayer:
    """The twin's own integers: ``(K, N)`` weight, ``(N,)`` bias (zeros where there is none)."""

    weight: NDArray[np.float64]
    bias: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TensorCut:
    """Both models between one float tensor and the outputs of the layers that quantize it.

    Attributes:
        tensor: name of the tensor, the one input of both runners.
        scale, zero_point: the twin's.
        lowered, twin: runners of the cut models.
        layers: the layers.
        accumulators: name of every layer's int32 value in the lowered model.
        shifted, quantized: names of the uint8 value in the lowered model, the int8 one in the twin.
        integers: the twin's constants of every layer.
    """

    tensor: str
    scale: float
    zero_point: int
    lowered: Runner
    twin: Runner
    layers: tuple[Layer, ...]
    accumulators: dict[str, str]
    shifted: str
    quantized: str
    integers: dict[str, _TwinLayer]

    def run(self, x: NDArray[np.float32]) -> Iterator[LayerRun]:
        """Run both on a float tensor of the static shape."""
        ours, theirs = self.lowered.run({self.tensor: x}), self.twin.run({self.tensor: x})
        quantized = (ours[self.shifted].astype(np.int16) - 128).astype(np.int8)
        for layer in self.layers:
            yield LayerRun(
                layer=layer.name,
                output=ours[layer.output],
                twin_output=theirs[layer.output],
                accumulator=ours[self.accumulators[layer.name]],
                quantized=quantized,
                twin_quantized=theirs[self.quantized],
            )

    def exact_accumulator(self, run: LayerRun) -> NDArray[np.float64]:
        """``(q - z) @ w + b`` from the twin's integers and the lowered layer's int8 input.

        In float64, which holds every partial sum exactly: all stay far below 2^53.
        """
        integers = self.integers[run.layer]
        steps = run.quantized.astype(np.float64) - self.zero_point
        return steps @ integers.weight + integers.bias


def cut_tensor(
    tensor: str,
    layers: Sequence[Layer],
    lowered: ir.Model,
    twin: ir.Model,
    config: RuntimeConfig | None,
) -> TensorCut:
    """Cut both models at `tensor`.

    Args:
        tensor: name of a float tensor.
        layers: the INT8 layers that read it.
        lowered: the lowered deploy model.
        twin: the QDQ twin.
        config: how to run.
    """
    ours, theirs = nodes_by_name(lowered), nodes_by_name(twin)
    quantize = _quantize_node(theirs[layers[0].node])
    shifted = ours[layers[0].node].inputs[0]
    assert shifted is not None
    accumulators = {layer.name: _accumulator(lowered, layer) for layer in layers}
    outputs = [layer.output for layer in layers]
    quantized = str(quantize.outputs[0].name)
    return TensorCut(
        tensor=tensor,
        scale=float(_array(quantize.inputs[1])),
        zero_point=int(_array(quantize.inputs[2])),
        lowered=_runner(
            lowered, tensor, [*outputs, *accumulators.values(), str(shifted.name)], config
        ),
        # Unoptimized, for fused kernels compute DequantizeLinear and MatMul in integers again.
        twin=_runner(twin, tensor, [*outputs, quantized], config, optimize=False),
        layers=tuple(layers),
        accumulators=accumulators,
        shifted=str(shifted.name),
        quantized=quantized,
        integers={layer.name: _twin_layer(theirs, layer) for layer in layers},
    )


def _runner(
    model: ir.Model,
    tensor: str,
    outputs: Sequence[str],
    config: RuntimeConfig | None,
    *,
    optimize: bool = True,
) -> Runner:
    graph = ir.convenience.extract(model.graph, [tensor], list(dict.fromkeys(outputs)))
    cut = ir.Model(graph, ir_version=model.ir_version)
    cut.opset_imports[""] = opset(model)
    return OnnxRuntimeRunner(model_bytes(cut), config, optimize=optimize)


def _accumulator(lowered: ir.Model, layer: Layer) -> str:
    """The int32 value that ``Cast -> Mul`` turns into the layer's output."""
    output = next(v for node in lowered.graph for v in node.outputs if v.name == layer.output)
    value = _source(_source(output).inputs[0]).inputs[0]
    assert value is not None
    return str(value.name)


def _quantize_node(reader: ir.Node) -> ir.Node:
    return _source(_source(reader.inputs[0]).inputs[0])


def _twin_layer(nodes: dict[str, ir.Node], layer: Layer) -> _TwinLayer:
    node = nodes[layer.node]
    weight = _array(_source(node.inputs[1]).inputs[0]).astype(np.float64)
    bias = nodes[layer.bias_node].inputs[1] if layer.bias_node else (*node.inputs, None)[2]
    if bias is None:
        return _TwinLayer(weight, np.zeros(weight.shape[1:], np.float64))
    return _TwinLayer(weight, _array(_source(bias).inputs[0]).astype(np.float64))


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
    return np.asarray(tensor.numpy())
