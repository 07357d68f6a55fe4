"""The QDQ twin: the deploy model's integers in standard QuantizeLinear / DequantizeLinear form.

It is what onnxruntime and other tools run, and the other side of the parity check. Its one
difference is in the standard itself: QuantizeLinear divides by the scale where AscendQuant
multiplies by the float32 reciprocal, so that a value next to a rounding tie may land one step off.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.model_record import ModelRecord
from quantflow.export.additions import Additions
from quantflow.export.sites import Site, drop_float_constants, int8_sites
from quantflow.graph.edit import copy_model


def qdq_model(model: ir.Model, record: ModelRecord, factors: Sequence[LayerFactors]) -> ir.Model:
    """Write the INT8 layers of a float model in QDQ form.

    Weight and bias are int8 and int32 initializers behind a DequantizeLinear; the bias's scale is
    the float32 product that the deploy model holds as deq scale.

    Args:
        model: a bucket of the canonical model, opset 13 or later; not changed.
        record: its layers.
        factors: of every layer.

    Raises:
        QuantflowError: QF543 when model and record do not fit together.
    """
    twin = copy_model(model)
    sites = int8_sites(twin, record, factors)
    additions = Additions(twin)
    activations = dict[str, ir.Value]()
    for site in sites:
        _rewrite(twin.graph, site, activations, additions)
    drop_float_constants(twin, sites)
    return twin


def _rewrite(
    graph: ir.Graph, site: Site, activations: dict[str, ir.Value], additions: Additions
) -> None:
    name, integers = site.layer.name, site.integers
    if site.layer.input not in activations:
        activations[site.layer.input] = _quantize_dequantize(graph, site, additions)
    zeros = np.zeros(integers.weight_scale.shape, np.int8)
    weight = _dequantized(
        f"{name}/weight",
        # A weight each: onnxruntime, making it uint8, does not load a model that shares one.
        additions.initializer(f"{name}/weight_int8", integers.weight),
        [_scale(integers.weight_scale), _scale(zeros)],
        1,
        additions,
    )
    graph.insert_before(site.node, weight)
    site.node.replace_input_with(0, activations[site.layer.input])
    site.node.replace_input_with(1, weight.outputs[0])
    if integers.bias is None:
        return
    steps = additions.initializer(f"{name}/bias_int32", integers.bias)
    bias = _dequantized(f"{name}/bias", steps, [_scale(integers.deq_scale)], 0, additions)
    graph.insert_before(site.node, bias)
    if site.bias_node is None:
        site.node.replace_input_with(2, bias.outputs[0])
    else:
        site.bias_node.replace_input_with(0, site.node.outputs[0])
        site.bias_node.replace_input_with(1, bias.outputs[0])


def _quantize_dequantize(graph: ir.Graph, site: Site, additions: Additions) -> ir.Value:
    source = site.node.inputs[0]
    assert source is not None
    name = site.layer.name
    scale = additions.initializer(f"{name}/scale_d", np.array(site.params.scale, np.float32))
    zero = additions.initializer(f"{name}/offset_d", np.array(site.params.zero_point, np.int8))
    quantize = additions.node(
        f"{name}/QuantizeLinear", "QuantizeLinear", [source, scale, zero], ir.DataType.INT8,
        like=source,
    )  # fmt: skip
    dequantize = additions.node(
        f"{name}/DequantizeLinear", "DequantizeLinear", [quantize.outputs[0], scale, zero],
        ir.DataType.FLOAT, like=source,
    )  # fmt: skip
    graph.insert_before(site.node, [quantize, dequantize])
    return dequantize.outputs[0]


def _scale(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """One entry stands for the whole tensor, which the standard writes as a scalar."""
    return array.reshape(()) if array.size == 1 else array


def _dequantized(
    base: str,
    integers: ir.Value,
    parameters: Sequence[NDArray[np.generic]],
    axis: int,
    additions: Additions,
) -> ir.Node:
    """A DequantizeLinear of an initializer; `parameters` are scale and, optionally, zero point."""
    names = ("scale", "zero_point")
    constants = [
        additions.initializer(f"{base}_{name}", array)
        for name, array in zip(names, parameters, strict=False)
    ]
    return additions.node(
        f"{base}/DequantizeLinear",
        "DequantizeLinear",
        [integers, *constants],
        ir.DataType.FLOAT,
        like=integers,
        attributes=[ir.AttrInt64("axis", axis)] if parameters[0].ndim else [],
    )
