"""Which values of a float model fp16 cannot hold, and which nodes must stay in fp32 for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from safetensors.numpy import load, save

from quantflow.artifacts.ranges_record import Fp16Tensor, Island
from quantflow.artifacts.weight_file import array_of
from quantflow.numerics.rounding import FP16_MAX
from quantflow.progress import Progress, no_progress
from quantflow.ranges.fp16_probe import MEASURES, instrument
from quantflow.runtime.batching import batches
from quantflow.runtime.runner import Feeds, Runner
from quantflow.runtime.workers import ALONE, Workers, share

WITHOUT_ARITHMETIC = frozenset({"Constant", "Shape", "Size"})
"""Op types that compute nothing in floating point, whatever they read or hold."""


def measure_fp16(
    model: ir.Model,
    make_runner: Callable[[ir.Model], Runner],
    samples: Iterable[Feeds],
    *,
    batch: int,
    progress: Progress = no_progress,
    workers: Workers = ALONE,
) -> list[Fp16Tensor]:
    """Run a model and say how each of its float32 inputs and node outputs fares in fp16.

    Shares are means over the samples, padding included.

    Args:
        model: the float32 model.
        make_runner: gives a runner for a model.
        samples: at least one, feeds without the batch axis.
        batch: samples per inference.
        progress: called after every batch.
        workers: share the batches; every worker gets the outcome of all.
    """
    instrumented, probes = instrument(model)
    runner = make_runner(instrumented)
    measured, order, counts = list[list[list[float]]](), list[int](), list[int]()
    count_done, done, samples = workers.counter(), 0, list(samples)
    for number, part in share(enumerate(batches(samples, batch)), workers):
        values = runner.run(part.feeds)
        measured.append([[float(values[p.outputs[name]]) for p in probes] for name in MEASURES])
        order.append(number)
        counts.append(part.count)
        done = count_done(part.count)
        progress("measuring fp16 safety", done, len(samples))
    shape = (len(order), len(MEASURES), len(probes))
    found, weights = _of_all(np.array(measured).reshape(shape), order, counts, workers)
    if done < len(samples):  # the last ones were another worker's
        progress("measuring fp16 safety", len(samples), len(samples))
    absmax = np.max(found["absmax"], axis=0)
    finite = np.min(found["all_finite"], axis=0) > 0
    subnormal = np.average(np.nan_to_num(found["subnormal"]), axis=0, weights=weights)
    flushed = np.average(np.nan_to_num(found["flushed"]), axis=0, weights=weights)
    return [
        Fp16Tensor(
            tensor=probe.tensor,
            node=probe.node,
            op_type=probe.op_type,
            absmax=float(absmax[i]),
            overflow=bool(absmax[i] > FP16_MAX or not finite[i]),
            subnormal_fraction=float(subnormal[i]),
            flushed_fraction=float(flushed[i]),
            finite=bool(finite[i]),
        )
        for i, probe in enumerate(probes)
    ]


def _of_all(
    measured: NDArray[np.float64], order: list[int], counts: list[int], workers: Workers
) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.int64]]:
    """What all workers measured, in the order of the batches, as means depend on the order.

    Args:
        measured: ``(B, measures, tensors)`` of this worker's B batches.
        order, counts: number of each batch, and how many samples it holds.
        workers: who measured.

    Returns:
        ``(B, tensors)`` of all batches by measure, and the ``(B,)`` numbers of samples.
    """
    own = {
        "measured": measured,
        "order": np.array(order, np.int64),
        "counts": np.array(counts, np.int64),
    }
    parts = [load(content) for content in workers.exchange(save(own))]
    whole = {name: np.concatenate([part[name] for part in parts]) for name in own}
    ascending = np.argsort(whole["order"])
    found = whole["measured"][ascending]
    return {name: found[:, i] for i, name in enumerate(MEASURES)}, whole["counts"][ascending]


def find_islands(model: ir.Model, tensors: Iterable[Fp16Tensor]) -> tuple[Island, ...]:
    """The nodes that must stay in fp32: all that read or write a value that overflows.

    Initializers of more than 65504 count as such values. Of several, an island names the largest.

    Args:
        model: the model that was measured.
        tensors: what `measure_fp16` found.

    Returns:
        The islands in graph order.
    """
    overflowing = {tensor.tensor: tensor.absmax for tensor in tensors if tensor.overflow}
    overflowing |= dict(_large_initializers(model))
    islands: list[Island] = []
    for node in model.graph:
        touched = _touched(node, overflowing)
        if touched and node.op_type not in WITHOUT_ARITHMETIC:
            tensor = max(touched, key=touched.__getitem__)
            islands.append(
                Island(
                    node=node.name or "",
                    op_type=node.op_type,
                    tensor=tensor,
                    absmax=touched[tensor],
                )
            )
    return tuple(islands)


def _touched(node: ir.Node, overflowing: Mapping[str, float]) -> dict[str, float]:
    names = [str(value.name) for value in (*node.inputs, *node.outputs) if value is not None]
    return {name: overflowing[name] for name in names if name in overflowing}


def _large_initializers(model: ir.Model) -> Iterable[tuple[str, float]]:
    for name, value in model.graph.initializers.items():
        if value.const_value is None or value.const_value.dtype != ir.DataType.FLOAT:
            continue
        array: NDArray[Any] = array_of(value.const_value)
        magnitude = float(np.abs(array).max(initial=0.0))
        if not magnitude <= FP16_MAX:  # true for NaN as well
            yield name, magnitude
