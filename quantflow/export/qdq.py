"""The QDQ twin: the deploy model's integers in standard QuantizeLinear / DequantizeLinear form.

It is what onnxruntime and other tools run, and the other side of the parity check. Its one
difference is in the standard itself: QuantizeLinear divides by the scale where AscendQuant
multiplies by the float32 reciprocal, so that a value next to a rounding tie may land one step off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.model_record import ModelRecord
from quantflow.export.additions import Additions
from quantflow.export.int8_weights import NEAREST, Int8Weights
from quantflow.export.sites import Site, drop_float_constants, int8_sites
from quantflow.graph.edit import copy_model
from quantflow.graph.kinds.conv_transpose import ungrouped
from quantflow.graph.kinds.table import groups_of, weight_from_matrix
from quantflow.numerics.quantize import QuantParams, dequantize_weight

Side = Literal["weights", "activations"]
"""What is quantized where not both are."""


def qdq_model(
    model: ir.Model,
    record: ModelRecord,
    factors: Sequence[LayerFactors],
    side: Side | None = None,
    weights: Int8Weights = NEAREST,
) -> ir.Model:
    """Write the INT8 layers of a float model in QDQ form.

    Weight and bias are int8 and int32 initializers behind a DequantizeLinear; the bias's scale is
    the float32 product that the deploy model holds as deq scale.

    Args:
        model: a bucket of the canonical model, opset 13 or later; not changed.
        record: its layers.
        factors: of every layer.
        side: quantize only weights, or only activations, and leave biases as they are. Weights
            alone are float32 that lie on their grid.
        weights: of layers that are not rounded to the nearest.

    Raises:
        QuantflowError: QF543 when model and record do not fit together.
    """
    twin = copy_model(model)
    sites = int8_sites(twin, record, factors, weights)
    additions = Additions(twin)
    activations = dict[str, ir.Value]()
    for site in sites:
        if side != "weights":
            _rewrite_inputs(twin.graph, site, activations, additions)
        if side == "weights":
            _round_weight(site, additions)
        if side is None:
            _rewrite_weight(twin.graph, site, additions)
            _rewrite_bias(twin.graph, site, additions)
    drop_float_constants(twin, sites)
    return twin


def _rewrite_inputs(
    graph: ir.Graph, site: Site, activations: dict[str, ir.Value], additions: Additions
) -> None:
    for index, params in enumerate(site.inputs):
        source = site.node.inputs[index]
        assert source is not None and source.name is not None
        if source.name not in activations:
            name = site.layer.name + ("/second" if index else "")
            pair = _quantize_dequantize(source, params, name, additions)
            graph.insert_before(site.node, pair)
            activations[source.name] = pair[-1].outputs[0]
        site.node.replace_input_with(index, activations[source.name])


def _rewrite_weight(graph: ir.Graph, site: Site, additions: Additions) -> None:
    if site.weight is not None:
        nodes = _weight(site, site.weight, additions)
        graph.insert_before(site.node, nodes)
        site.node.replace_input_with(1, nodes[-1].outputs[0])


def _round_weight(site: Site, additions: Additions) -> None:
    """Replace a weight by what its int8 form stands for.

    Behind a DequantizeLinear, onnxruntime 1.32 would make the product a MatMulNBits, which
    quantizes the activation as well.
    """
    if site.weight is not None:
        layer, shape = site.layer, site.weight.shape
        scale = site.integers.weight_scale
        matrix = dequantize_weight(site.integers.weight, scale, None if scale.size == 1 else 1)
        rounded = weight_from_matrix(matrix, shape, layer.op_type, groups_of(layer))
        site.node.replace_input_with(1, additions.initializer(f"{layer.name}/weight", rounded))


def _weight(site: Site, weight: NDArray[np.int8], additions: Additions) -> list[ir.Node]:
    """What computes the float weight from the int8 one.

    The scales lie along the output channels, which are no axis of a grouped ConvTranspose's weight.
    Its twin holds the weight as ``(N, C / groups, ...)`` and moves the axes after dequantization.
    """
    scale, groups = site.integers.weight_scale, _groups(site)
    axis = {"Conv": 0}.get(site.layer.op_type, 1)
    stored = weight
    if groups > 1:
        axis, stored = 0, ungrouped(weight, groups)
    nodes = [
        _dequantized(
            f"{site.layer.name}/weight",
            # A weight each: onnxruntime, making it uint8, does not load a model that shares one.
            additions.initializer(f"{site.layer.name}/weight_int8", stored),
            [_scale(scale), _scale(np.zeros(scale.shape, np.int8))],
            axis,
            additions,
        )
    ]
    if groups > 1:
        nodes += _regrouped(nodes[0].outputs[0], site, weight.shape, groups, additions)
    return nodes


def _groups(site: Site) -> int:
    """Number of groups where they come between the scales and an axis of the weight."""
    if site.layer.op_type != "ConvTranspose" or site.integers.weight_scale.size == 1:
        return 1
    return site.node.attributes.get_int("group", 1)


def _regrouped(
    value: ir.Value, site: Site, shape: tuple[int, ...], groups: int, additions: Additions
) -> list[ir.Node]:
    """From ``(N, C / groups, ...)`` to ``(C, N / groups, ...)``, as `ungrouped` undoes it."""
    channels, width, *kernel = shape
    grouped = [groups, width, channels // groups, *kernel]
    order = [0, 2, 1, *range(3, len(grouped))]

    def reshape(value: ir.Value, dims: list[int], number: int) -> ir.Node:
        name = f"{site.layer.name}/weight_shape{number}"
        target = additions.initializer(name, np.array(dims, np.int64))
        return additions.node(
            f"{site.layer.name}/weight/Reshape{number}", "Reshape", [value, target],
            ir.DataType.FLOAT,
        )  # fmt: skip

    split = reshape(value, grouped, 0)
    turned = additions.node(
        f"{site.layer.name}/weight/Transpose", "Transpose", [split.outputs[0]], ir.DataType.FLOAT,
        attributes=[ir.AttrInt64s("perm", order)],
    )  # fmt: skip
    return [split, turned, reshape(turned.outputs[0], list(shape), 1)]


def _rewrite_bias(graph: ir.Graph, site: Site, additions: Additions) -> None:
    if site.integers.bias is None:
        return
    steps = additions.initializer(f"{site.layer.name}/bias_int32", site.integers.bias)
    scale = _scale(site.integers.deq_scale)
    node = _dequantized(f"{site.layer.name}/bias", steps, [scale], 0, additions)
    graph.insert_before(site.node, node)
    if site.bias_node is None:
        site.node.replace_input_with(2, node.outputs[0])
    else:
        site.bias_node.replace_input_with(0, site.node.outputs[0])
        site.bias_node.replace_input_with(1, node.outputs[0])


def _quantize_dequantize(
    source: ir.Value, params: QuantParams, name: str, additions: Additions
) -> list[ir.Node]:
    scale = additions.initializer(f"{name}/scale_d", np.array(params.scale, np.float32))
    zero = additions.initializer(f"{name}/offset_d", np.array(params.zero_point, np.int8))
    quantize = additions.node(
        f"{name}/QuantizeLinear", "QuantizeLinear", [source, scale, zero], ir.DataType.INT8,
        like=source,
    )  # fmt: skip
    dequantize = additions.node(
        f"{name}/DequantizeLinear", "DequantizeLinear", [quantize.outputs[0], scale, zero],
        ir.DataType.FLOAT, like=source,
    )  # fmt: skip
    return [quantize, dequantize]


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
