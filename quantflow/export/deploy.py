"""The deploy model: ordinary ONNX whose INT8 layers are written as Ascend's compiler reads them.

An INT8 layer becomes ``AscendQuant -> the layer's node on int8 -> [Add of an int32 bias] ->
AscendDequant``; a product of two activations has an AscendQuant on either side. The AscendDequant's
output takes over the name of the layer's output, so whatever follows is untouched. onnxruntime
cannot load such a file and onnx.checker refuses it, by design.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.model_record import ModelRecord
from quantflow.export.additions import Additions
from quantflow.export.int8_weights import NEAREST, Int8Weights
from quantflow.export.sites import Site, drop_float_constants, int8_sites
from quantflow.graph.edit import copy_model
from quantflow.numerics.quantize import QuantParams


def deploy_model(
    model: ir.Model,
    record: ModelRecord,
    factors: Sequence[LayerFactors],
    weights: Int8Weights = NEAREST,
) -> ir.Model:
    """Write the INT8 layers of a static float model in Ascend's dialect.

    Weights that a float layer reads as well (shared, or tied to an embedding) stay in float for it.

    Args:
        model: a bucket of the canonical model; not changed.
        record: its layers.
        factors: of every layer.
        weights: of layers that are not rounded to the nearest.

    Raises:
        QuantflowError: QF543 when model and record do not fit together.
    """
    deploy = copy_model(model)
    sites = int8_sites(deploy, record, factors, weights)
    additions = Additions(deploy)
    quantized = dict[str, ir.Value]()
    for site in sites:
        for index, params in enumerate(site.inputs):
            source = site.node.inputs[index]
            assert source is not None and source.name is not None
            if source.name not in quantized:
                quant = _quantize(source, params, site, index, additions)
                deploy.graph.insert_before(site.node, quant)
                quantized[source.name] = quant.outputs[0]
            site.node.replace_input_with(index, quantized[source.name])
        _to_int8(site, additions)
        _dequantize(deploy.graph, site, additions)
    drop_float_constants(deploy, sites)
    return deploy


def boundaries(deploy: ir.Model) -> int:
    """Number of places where a deploy model changes between float and INT8."""
    return sum(node.op_type in ("AscendQuant", "AscendDequant") for node in deploy.graph)


def pack_deq_scale(scales: np.ndarray) -> np.ndarray:
    """``(C,)`` float32 scales as uint64: their bits in the low half, the high half zero."""
    return scales.astype(np.float32).view(np.uint32).astype(np.uint64)


def unpack_deq_scale(packed: np.ndarray) -> np.ndarray:
    """The float32 scales in the low halves of a ``(C,)`` uint64 array."""
    return packed.astype(np.uint32).view(np.float32)


def _quantize(
    source: ir.Value, params: QuantParams, site: Site, index: int, additions: Additions
) -> ir.Node:
    return additions.node(
        f"{site.layer.name}/AscendQuant" + ("_second" if index else ""),
        "AscendQuant",
        [source],
        ir.DataType.INT8,
        like=source,
        # The compiler ignores an attribute of another type and reads 0 in its place.
        attributes=[
            ir.AttrFloat32("scale", float(params.multiplier)),
            ir.AttrFloat32("offset", float(params.zero_point)),
            ir.AttrString("dst_type", "INT8"),
        ],
    )


def _to_int8(site: Site, additions: Additions) -> None:
    """Give the layer's nodes integer constants."""
    if site.weight is not None:
        # Layers that share a weight and its scales share the int8 weight as well.
        key = (site.layer.weight, site.layer.op_type, site.integers.weight_scale.tobytes())
        weight = additions.shared(f"{site.layer.name}/weight_int8", key, site.weight)
        site.node.replace_input_with(1, weight)
    # A new type, for clones of a model share the type objects of their values.
    site.node.outputs[0].type = ir.TensorType(ir.DataType.INT32)
    if site.integers.bias is None:
        return
    bias = additions.initializer(f"{site.layer.name}/bias_int32", site.integers.bias)
    if site.bias_node is None:
        site.node.replace_input_with(2, bias)
    else:
        site.bias_node.replace_input_with(0, site.node.outputs[0])
        site.bias_node.replace_input_with(1, bias)


def _dequantize(graph: ir.Graph, site: Site, additions: Additions) -> None:
    accumulator = site.last.outputs[0]
    packed = pack_deq_scale(site.integers.deq_scale)
    dequant = additions.node(
        f"{site.layer.name}/AscendDequant",
        "AscendDequant",
        [accumulator, additions.initializer(f"{site.layer.name}/deq_scale", packed)],
        ir.DataType.FLOAT,
        like=accumulator,
        attributes=[ir.AttrInt64("dtype", 0)],
    )
    output = dequant.outputs[0]
    ir.convenience.replace_all_uses_with(accumulator, output, replace_graph_outputs=True)
    # The line above turned the AscendDequant's own input around as well.
    dequant.replace_input_with(0, accumulator)
    accumulator.name, output.name = additions.name(f"{site.layer.name}/int32"), accumulator.name
    accumulator.type = ir.TensorType(ir.DataType.INT32)
    graph.insert_after(site.last, dequant)
