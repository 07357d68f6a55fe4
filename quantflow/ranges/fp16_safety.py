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
from quantflow.ranges.fp16_probe import Measures
from quantflow.ranges.fp16_watch import measure_batches, watch_of
from quantflow.runtime.batching import Batch, batches
from quantflow.runtime.runner import Feeds, Runner
from quantflow.runtime.workers import ALONE, Workers, share

HEADROOM = 2.0
"""A value may become this many times larger in production than on the samples that were measured:
on SmolLM2, values of 48,000 on four texts overflowed on others."""

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
        progress: called after every batch of a piece of the model, with how many samples could
            have been done in full.
        workers: share the batches; every worker gets the outcome of all.
    """
    samples = list(samples)
    watch = watch_of(model, samples, batch)
    own = dict(share(enumerate(batches(samples, batch)), workers))
    count_done, done = workers.counter(), 0

    def report(count: int) -> None:
        nonlocal done
        done = count_done(count) // len(watch.pieces)
        progress("measuring fp16 safety", done, len(samples))

    measured = measure_batches(watch, list(own.values()), make_runner, report)
    everything, weights = _of_all(measured, own, workers)
    if done < len(samples):  # the last ones were another worker's
        progress("measuring fp16 safety", len(samples), len(samples))
    return _summaries(watch.values, everything, weights)


def _of_all(
    measured: NDArray[np.float64], own: Mapping[int, Batch], workers: Workers
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """What all workers measured, in the order of the batches, as means depend on the order.

    Args:
        measured: ``(B, tensors, measures)`` of this worker's B batches.
        own: these batches, by number.
        workers: who measured.

    Returns:
        The same of all batches, and the ``(B,)`` numbers of samples that they hold.
    """
    arrays = {
        "measured": measured,
        "order": np.array(list(own), np.int64),
        "counts": np.array([part.count for part in own.values()], np.int64),
    }
    parts = [load(content) for content in workers.exchange(save(arrays))]
    whole = {name: np.concatenate([part[name] for part in parts]) for name in arrays}
    ascending = np.argsort(whole["order"])
    return whole["measured"][ascending], whole["counts"][ascending]


def _summaries(
    values: Mapping[str, ir.Value], measured: NDArray[np.float64], weights: NDArray[np.int64]
) -> list[Fp16Tensor]:
    """What ``(B, tensors, measures)`` of some batches say together."""
    by_name = dict(zip(Measures._fields, np.moveaxis(measured, 2, 0), strict=True))
    absmax, finite = by_name["absmax"].max(axis=0), by_name["finite"].min(axis=0) > 0
    subnormal = np.average(by_name["subnormal"], axis=0, weights=weights)
    flushed = np.average(by_name["flushed"], axis=0, weights=weights)
    writers = [value.producer() for value in values.values()]
    return [
        Fp16Tensor(
            tensor=name,
            node=(writer.name or "") if writer else "",
            op_type=writer.op_type if writer else "",
            absmax=float(absmax[i]),
            overflow=bool(absmax[i] > FP16_MAX or not finite[i]),
            subnormal_fraction=float(subnormal[i]),
            flushed_fraction=float(flushed[i]),
            finite=bool(finite[i]),
        )
        for i, (name, writer) in enumerate(zip(values, writers, strict=True))
    ]


def find_islands(model: ir.Model, tensors: Iterable[Fp16Tensor]) -> tuple[Island, ...]:
    """The nodes that must stay in fp32: all that read or write a value that overflows, or nearly.

    A value nearly overflows when `HEADROOM` times as much would. Initializers of more than 65504
    overflow. Of several values, an island names the largest.

    Args:
        model: the model that was measured.
        tensors: what `measure_fp16` found.

    Returns:
        The islands in graph order.
    """
    overflowing = {
        tensor.tensor: tensor.absmax
        for tensor in tensors
        if tensor.overflow or tensor.absmax * HEADROOM > FP16_MAX
    }
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
