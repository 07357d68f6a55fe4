"""Passing a model through code that takes a proto, which no large model fits into."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import onnx_ir as ir

from quantflow.artifacts.weight_file import DERIVED_BYTES, array_of
from quantflow.graph.edit import copy_model


def convert_proto(
    model: ir.Model, convert: Callable[[onnx.ModelProto], onnx.ModelProto]
) -> ir.Model:
    """What `convert` makes of a model; its large weights are set aside and given back.

    Args:
        model: not changed.
        convert: must keep inputs and the names of initializers. Large weights look like inputs.
    """
    copy = copy_model(model)
    aside = dict[str, ir.TensorProtocol]()
    for name, value in list(copy.graph.initializers.items()):
        tensor = value.const_value
        if tensor is None:
            continue
        if tensor.nbytes <= DERIVED_BYTES:
            # A reference into a file would mean nothing to the code.
            value.const_value = ir.tensor(array_of(tensor), dtype=tensor.dtype, name=name)
            continue
        aside[name] = tensor
        del copy.graph.initializers[name]
        value.const_value = None
        value.type, value.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape.numpy())
        copy.graph.inputs.append(value)
    # Before version 4 of the format, initializers had to be inputs, which here they are not.
    copy.ir_version = max(copy.ir_version, 4)
    result = ir.from_proto(convert(ir.to_proto(copy)))
    for value in [value for value in result.graph.inputs if value.name in aside]:
        result.graph.inputs.remove(value)
        value.const_value = aside[str(value.name)]
        result.graph.register_initializer(value)
    return result
