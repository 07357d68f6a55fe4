"""Whether a model can take every bucket: all shapes known, and the batch first in every output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import onnx_ir as ir

from quantflow.artifacts.model_record import ModelRecord
from quantflow.config import Config
from quantflow.errors import Problem, QuantflowError
from quantflow.evaluation.random_samples import random_samples
from quantflow.graph.bucket import bucket_model, bucket_name
from quantflow.graph.edit import static_shape
from quantflow.runtime.batching import batches
from quantflow.runtime.bucket_run import batch_size
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner


def check_shapes(model: ir.Model, record: ModelRecord, config: Config, *, start: int = 0) -> None:
    """Raise QF216 for buckets that the model cannot take, QF212 for outputs without a batch.

    Args:
        model: the canonical model.
        record: its boundary.
        config: its buckets and runtime count.
        start: number of the first bucket to look at.
    """
    problems = list[Problem]()
    for index, dims in enumerate(config.target.buckets[start:], start):
        where = f"target.buckets[{index}], {bucket_name(dims)}"
        problems += _problems(model, record, dims, config, where)
    if problems:
        raise QuantflowError(problems)


def _problems(
    model: ir.Model, record: ModelRecord, dims: Mapping[str, int], config: Config, where: str
) -> Iterator[Problem]:
    static, size = bucket_model(model, dims), batch_size(record, dims)
    shapes = {str(value.name): static_shape(value) for value in static.graph.outputs}
    if any(shape is None or not prod(shape) for shape in shapes.values()):
        yield _obstacle(static, record, dims, config, where)
        return
    for name, shape in shapes.items():
        if not shape or shape[0] != size:
            what = f"output {name!r} has shape {shape}, its first axis is not the batch of {size}"
            fix = "let the model return one entry per sample along the first axis"
            yield Problem("QF212", what, where, fix)


def _obstacle(
    static: ir.Model, record: ModelRecord, dims: Mapping[str, int], config: Config, where: str
) -> Problem:
    """Why an output has no shape: the node that cannot run, or the first whose size depends."""
    size = batch_size(record, dims)
    samples = random_samples(static, record, dims, size)
    try:
        runner = OnnxRuntimeRunner(static, config.runtime, optimize=False)
        runner.run(next(batches(samples, size)).feeds)
    except QuantflowError as error:
        problem = error.problems[0]
        what = f"onnxruntime refuses the bucket: {problem.what.rpartition(' : ')[2]}"
        node = f"; {problem.where}" if problem.code == "QF213" else ""
        fix = "leave the bucket out, or export the model with the size it holds as a free dimension"
        return Problem("QF216", what, where + node, fix)
    for node in static.graph:
        for value in node.outputs:
            shape = static_shape(value)
            if value.name and (shape is None or not prod(shape)):
                size_of = "is empty" if shape is not None else "has no size before the model runs"
                what = f"the output of {node.op_type} {size_of}"
                return Problem("QF216", what, f"{where}; {node.name}", "do without the operator")
    return Problem("QF216", "an output has no fixed size", where, "export it with a fixed size")
