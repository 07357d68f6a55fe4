"""The files of one bucket: deploy model, float twin, QDQ twin, and what atc is told beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx_ir as ir

from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.export_record import BucketFiles, LayerFactors
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.errors import Problem, QuantflowError
from quantflow.export.customize_dtypes import customize_dtypes
from quantflow.export.deploy import deploy_model
from quantflow.export.int8_weights import NEAREST, Int8Weights
from quantflow.export.keep_dtype import keep_dtype
from quantflow.export.qdq import qdq_model
from quantflow.graph.bucket import bucket_model, bucket_name
from quantflow.graph.model_io import ONE_FILE_LIMIT, save_model
from quantflow.target.lint import lint
from quantflow.target.op_table import Cann


def write_bucket(
    folder: Path,
    model: ir.Model,
    record: ModelRecord,
    plan: PrecisionPlan,
    factors: Sequence[LayerFactors],
    dims: Mapping[str, int],
    cann: Cann,
    weights: Int8Weights = NEAREST,
) -> BucketFiles:
    """Write the files of a bucket.

    Args:
        folder: where to.
        model, record: the canonical model.
        plan: gives the fp32 islands.
        factors: of every layer.
        dims: sizes of the bucket.
        cann: whose rules the deploy model must keep.
        weights: of layers that are not rounded to the nearest.

    Raises:
        QuantflowError: QF503 when the deploy model breaks a rule, and nothing is written.
    """
    name = bucket_name(dims)
    static = bucket_model(model, dims)
    deploy = deploy_model(static, record, factors, weights)
    _require_clean(deploy, name, cann)
    save_model(static, folder / f"float_{name}.onnx")
    save_model(deploy, folder / f"deploy_{name}.onnx", limit=ONE_FILE_LIMIT)
    twin = qdq_model(static, record, factors, weights=weights)
    save_model(twin, folder / f"qdq_{name}.onnx")
    keep = keep_dtype(deploy, plan.island_nodes)
    companions = {
        f"keep_dtype_{name}.txt": keep.text,
        f"customize_dtypes_{name}.txt": customize_dtypes(deploy, plan.island_nodes),
    }
    for file, text in companions.items():
        if text:
            write_atomically(folder / file, text.encode())
    return BucketFiles(
        name=name,
        dims=dict(dims),
        input_shapes={
            info.name: tuple(d if isinstance(d, int) else dims[d] for d in info.shape)
            for info in record.inputs
        },
        deploy=f"deploy_{name}.onnx",
        float_twin=f"float_{name}.onnx",
        qdq=f"qdq_{name}.onnx",
        keep_dtype=_named(companions, f"keep_dtype_{name}.txt"),
        customize_dtypes=_named(companions, f"customize_dtypes_{name}.txt"),
        unkept_islands=keep.unnamed,
        op_types=dict(sorted(Counter(node.op_type for node in deploy.graph).items())),
    )


def _named(companions: Mapping[str, str], file: str) -> str | None:
    """The file's name where it has a text, and so was written."""
    return file if companions[file] else None


def _require_clean(deploy: ir.Model, name: str, cann: Cann) -> None:
    """No file counts as written that breaks a rule of the dialect."""
    errors = [f for f in lint(deploy, cann) if f.level == "error"]
    if errors:
        raise QuantflowError(
            [
                Problem(
                    "QF503", f"{f.rule}: {f.what}", where=f"deploy_{name}: {f.where}", fix=f.fix
                )
                for f in errors
            ]
        )
