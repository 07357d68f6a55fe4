"""Which values of a float model fp16 cannot hold, and which nodes must stay in fp32 for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.ranges_record import Fp16Tensor, Island
from quantflow.graph.model_io import model_bytes
from quantflow.numerics.rounding import FP16_MAX
from quantflow.progress import Progress, no_progress
from quantflow.ranges.fp16_probe import MEASURES, instrument
from quantflow.runtime.batching import batches
from quantflow.runtime.runner import Feeds, Runner

WITHOUT_ARITHMETIC = frozenset({"Constant", "Shape", "Size"})
"""Op types that compute nothing in floating point, whatever they read or hold."""


def measure_fp16(
    model: ir.Model,
    make_runner: Callable[[bytes], Runner],
    samples: Iterable[Feeds],
    *,
    batch: int,
    progress: Progress = no_progress,
) -> list[Fp16Tensor]:
    """Run a model and say how each of its float32 inputs and node outputs fares in fp16.

    Shares are means over the samples, padding included.

    Args:
        model: the float32 model.
        make_runner: gives a runner for a serialized model.
        samples: at least one, feeds without the batch axis.
        batch: samples per inference.
        progress: called after every batch.
    """
    instrumented, probes = instrument(model)
    runner = make_runner(model_bytes(instrumented))
    found: dict[str, list[NDArray[np.float64]]] = {name: [] for name in MEASURES}
    counts: list[int] = []
    samples = list(samples)
    for part in batches(samples, batch):
        values = runner.run(part.feeds)
        for name in MEASURES:
            found[name].append(np.array([float(values[p.outputs[name]]) for p in probes]))
        counts.append(part.count)
        progress("measuring fp16 safety", sum(counts), len(samples))
    absmax = np.max(found["absmax"], axis=0)
    finite = np.min(found["all_finite"], axis=0) > 0
    subnormal = np.average(np.nan_to_num(found["subnormal"]), axis=0, weights=counts)
    flushed = np.average(np.nan_to_num(found["flushed"]), axis=0, weights=counts)
    return [
        Fp16Tensor(
            tensor=probe.tensor,
            node=probe.node,
            op_type=probe.op_type,
            absmax=float(absmax[i]),
            overflow=bool(absmax[i] > FP16_MAX or not finite[i]),
            subnormal_fraction=float(subnormal[i]),
            flushed_fraction=float(flushed[i]),
        )
        for i, probe in enumerate(probes)
    ]


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
        array: NDArray[Any] = value.const_value.numpy()
        magnitude = float(np.abs(array).max(initial=0.0))
        if not magnitude <= FP16_MAX:  # true for NaN as well
            yield name, magnitude
