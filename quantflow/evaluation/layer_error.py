"""Where error arises: every INT8 layer's output in the deploy model against float32."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.comparison import LayerError
from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.model_record import Layout, ModelRecord
from quantflow.config import RuntimeConfig, TargetConfig
from quantflow.export.lowering import lower
from quantflow.graph.edit import cut_between, with_outputs
from quantflow.progress import Progress
from quantflow.runtime.batching import batches
from quantflow.runtime.bucket_run import batch_size, fit_sample
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.runner import Feeds

SAMPLES = 16
"""Samples that layer errors are measured on."""


def layer_errors(
    float_model: ir.Model,
    deploy: ir.Model,
    record: ModelRecord,
    export: ExportRecord,
    islands: frozenset[str],
    samples: Iterable[Feeds],
    dims: Mapping[str, int],
    target: TargetConfig,
    runtime: RuntimeConfig,
    progress: Progress,
) -> tuple[LayerError, ...]:
    """Signal to noise of every INT8 layer's output, by its own fault and by all before it.

    Args:
        float_model, deploy: the two models of one bucket.
        record, export: their descriptions.
        islands: nodes that run in fp32.
        samples: arrays without the batch axis; the first 16 are used.
        dims: sizes of the bucket.
        target, runtime: sections of the configuration.
        progress: called after every batch.
    """
    int8 = {entry.layer for entry in export.layers if entry.precision == "int8"}
    layers = [layer for layer in record.layers if layer.name in int8]
    if not layers:
        return ()
    sources = sorted({name for x in layers for name in (x.input, x.second_input) if name})
    results = [layer.output for layer in layers]
    lowered = lower(deploy, fp19=target.fp19_dequant, emulate_fp16=True, islands=islands)
    exact = _open(with_outputs(float_model, [*sources, *results]), runtime)
    whole = _open(with_outputs(lowered, results), runtime)
    alone = _open(cut_between(lowered, sources, results), runtime)
    by_all, by_own = _Noise(results), _Noise(results)
    fitted = [fit_sample(sample, record, dims) for sample in islice(samples, SAMPLES)]
    layouts: dict[str, Layout] = {entry.tensor: entry.layout for entry in record.padding}
    for batch in batches(fitted, batch_size(record, dims)):
        expected = exact.run(batch.feeds)
        observed = whole.run(batch.feeds)
        # By position: a layer that feeds another one directly gives its output a new name.
        own = alone.run({name: expected[name] for name in sources})
        isolated = dict(zip(results, own.values(), strict=True))
        for layer in layers:
            rows = _real_rows(batch.feeds, batch.count, record, layouts.get(layer.input, "none"))
            name = layer.output
            by_all.add(name, expected[name], observed[name], rows)
            by_own.add(name, expected[name], isolated[name], rows)
        progress("error of every layer", max(batch.indices) + 1, len(fitted))
    return tuple(
        LayerError(
            layer=layer.name,
            group=layer.group,
            sqnr_db=by_all.sqnr_db(layer.output),
            own_sqnr_db=by_own.sqnr_db(layer.output),
        )
        for layer in layers
    )


class _Noise:
    """Sums of squares of signals and errors, by tensor."""

    def __init__(self, names: Sequence[str]) -> None:
        self._sums = {name: np.zeros(2) for name in names}

    def add(
        self,
        name: str,
        expected: NDArray[np.float32],
        observed: NDArray[np.float32],
        rows: NDArray[np.bool_],
    ) -> None:
        """Add the rows (leading axes of `rows`) that count."""
        if rows.ndim == 1 and len(expected) != len(rows):
            rows = np.ones(len(expected), bool)
        exact = expected[rows].astype(np.float64)
        self._sums[name] += np.square(exact).sum(), np.square(exact - observed[rows]).sum()

    def sqnr_db(self, name: str) -> float:
        """``10 log10(signal / noise)``, in dB."""
        signal, noise = self._sums[name]
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(10 * np.log10(signal / noise))


def _real_rows(
    feeds: Mapping[str, NDArray[Any]], count: int, record: ModelRecord, layout: Layout
) -> NDArray[np.bool_]:
    """Which leading positions of a tensor are neither padding nor repeated samples."""
    size = len(next(iter(feeds.values())))
    real = np.arange(size) < count
    if record.mask is None or layout not in ("positions", "flat"):
        return real
    positions = (feeds[record.mask.name] != 0) & real[:, None]
    return positions.ravel() if layout == "flat" else positions


def _open(model: ir.Model, runtime: RuntimeConfig) -> OnnxRuntimeRunner:
    return OnnxRuntimeRunner(model, runtime)
