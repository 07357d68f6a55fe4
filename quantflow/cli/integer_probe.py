"""Does onnxruntime multiply u8 by s8 exactly? On AVX2 without VNNI it may saturate in 16 bits."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner

DEPTH = 64
"""Products that are added up; pairs of them meet in 16 bits where the processor saturates."""

EXACT = DEPTH * 255 * 127
"""The right sum; a pair of products, 64,770, is beyond the 32,767 that saturation leaves."""


def probe() -> int:
    """The sum of `DEPTH` products 255 * 127 as onnxruntime computes it.

    When several elements of the result differ, the one that is furthest off.

    Raises:
        QuantflowError: QF205 when onnxruntime refuses the model.
    """
    rows, columns = 4, 16
    runner = OnnxRuntimeRunner(_model(rows, columns))
    feeds = {"x": np.full((rows, DEPTH), 255, np.uint8)}
    result = runner.run(feeds)["y"].astype(np.int64).ravel()
    return int(result[np.abs(result - EXACT).argmax()])


def _model(rows: int, columns: int) -> ir.Model:
    weight = ir.Value(
        name="w", const_value=ir.tensor(np.full((DEPTH, columns), 127, np.int8), name="w")
    )
    x = ir.Value(name="x", shape=ir.Shape([rows, DEPTH]), type=ir.TensorType(ir.DataType.UINT8))
    y = ir.Value(name="y", shape=ir.Shape([rows, columns]), type=ir.TensorType(ir.DataType.INT32))
    node = ir.Node("", "MatMulInteger", [x, weight], outputs=[y], name="product")
    graph = ir.Graph(
        [x], [y], nodes=[node], initializers=[weight], opset_imports={"": 17}, name="probe"
    )
    return ir.Model(graph, ir_version=9)
