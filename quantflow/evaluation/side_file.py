"""A side that is an ONNX file, whoever made it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir

from quantflow.artifacts.export_record import BucketFiles
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.side_by_side import SideInfo, SideKind
from quantflow.config import TargetConfig
from quantflow.errors import fail
from quantflow.evaluation.precisions import lowered
from quantflow.evaluation.sides import ModelSide
from quantflow.graph.model_io import load_model
from quantflow.graph.wiring import check_wiring


def file_side(
    path: Path,
    record: ModelRecord,
    bucket: BucketFiles,
    plan: PrecisionPlan,
    target: TargetConfig,
) -> ModelSide:
    """An ONNX file; one in Ascend's dialect is lowered, any other one runs as it is.

    Raises:
        QuantflowError: QF201 and QF202 when it cannot be read or lacks a node, QF211 when its
            inputs are not those of the run's model, QF544 for a deploy model in another dialect.
    """
    model = load_model(path)
    check_wiring(model, path)
    types = {node.op_type for node in model.graph}
    kind: SideKind = "float"
    if types & {"AscendQuant", "AscendDequant"}:
        kind, model = "int8", lowered(model, plan, target)
    elif types & {"QuantizeLinear", "DequantizeLinear"}:
        kind = "qdq"
    _check_inputs(model, record, bucket, path)
    return ModelSide(SideInfo(name=str(path), kind=kind), model)


def _check_inputs(model: ir.Model, record: ModelRecord, bucket: BucketFiles, path: Path) -> None:
    initializers = model.graph.initializers
    inputs = {str(x.name): x for x in model.graph.inputs if x.name not in initializers}
    wanted = [info.name for info in record.inputs]
    if sorted(inputs) != sorted(wanted):
        what = f"it reads {sorted(inputs)}, the run's model {sorted(wanted)}"
        fail("QF211", what, where=str(path), fix="compare models with the same inputs")
    dtypes = {info.name: info.dtype for info in record.inputs}
    for name, value in inputs.items():
        expected = bucket.input_shapes[name]
        if value.dtype is not None and value.dtype.numpy() != np.dtype(dtypes[name]):
            what = f"its input {name!r} is {value.dtype.numpy()}, that of the run {dtypes[name]}"
            fail("QF211", what, where=str(path), fix="compare models with the same inputs")
        shape = list(value.shape) if value.shape is not None else list(expected)
        sizes = [dim if isinstance(dim, int) else None for dim in shape]
        fits = len(sizes) == len(expected)
        if not fits or any(a is not None and a != b for a, b in zip(sizes, expected, strict=True)):
            what = f"its input {name!r} has shape {shape}, bucket {bucket.name} takes {expected}"
            fix = "give a file of the first bucket, or one with free dimensions"
            fail("QF211", what, where=str(path), fix=fix)
