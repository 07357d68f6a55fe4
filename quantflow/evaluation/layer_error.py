"""Where error arises: every INT8 layer's output in the deploy model against float32."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.comparison import LayerError
from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.model_record import Layer, Layout, ModelRecord
from quantflow.config import RuntimeConfig, TargetConfig
from quantflow.evaluation.arranged import arrange_batch
from quantflow.export.lowering import lower
from quantflow.graph.edit import cut_between, with_outputs
from quantflow.progress import Progress
from quantflow.ranges.part import Part
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
    source = _open(with_outputs(float_model, [*sources, *results]), runtime)
    whole = _open(with_outputs(lowered, results), runtime)
    alone = _open(cut_between(lowered, sources, results), runtime)
    by_all, by_own = _Noise(results), _Noise(results)
    fitted = [fit_sample(sample, record, dims) for sample in islice(samples, SAMPLES)]
    layouts: dict[str, Layout] = {layer.output: _rows_layout(record, layer) for layer in layers}
    size = batch_size(record, dims)
    for batch in batches(fitted, size):
        expected = source.run(batch.feeds)
        observed = whole.run(batch.feeds)
        # By position: a layer that feeds another one directly gives its output a new name.
        own = alone.run({name: expected[name] for name in sources})
        isolated = dict(zip(results, own.values(), strict=True))
        for layer in layers:
            name = layer.output
            exact, *found = (
                arrange_batch(x[name], batch.feeds, batch.count, record, layouts[name], name)
                for x in (expected, observed, isolated)
            )
            # Rows of all samples under one another may have been moved among them.
            apart = size == 1 or layouts[name] != "none" or exact.values.shape[1] == 1
            for noise, part in zip((by_all, by_own), found, strict=True):
                noise.add(name, exact, part, batch.indices, apart=apart)
        progress("error of every layer", max(batch.indices) + 1, len(fitted))
    return tuple(
        LayerError(
            layer=layer.name,
            group=layer.group,
            sqnr_db=by_all.sqnr_db(layer.output),
            own_sqnr_db=by_own.sqnr_db(layer.output),
            sample_sqnr_db=by_all.of_samples(layer.output, len(fitted)),
        )
        for layer in layers
    )


class _Noise:
    """Sums of squares of signals and errors, by tensor and by sample."""

    def __init__(self, names: Sequence[str]) -> None:
        self._sums = {name: np.zeros(2) for name in names}
        self._samples = {name: np.full((2, SAMPLES), np.nan) for name in names}

    def add(
        self, name: str, expected: Part, observed: Part, samples: Sequence[int], *, apart: bool
    ) -> None:
        """Add what is no padding.

        Args:
            name: of the tensor.
            expected, observed: its values in the two models.
            samples: positions of the samples in the set.
            apart: whether the values of a sample are its own.
        """
        exact = expected.values.astype(np.float64)
        squares = np.stack([np.square(exact), np.square(exact - observed.values)])
        if expected.real is not None:
            real = expected.real.reshape(
                expected.real.shape + (1,) * (exact.ndim - expected.real.ndim)
            )
            squares = np.where(real, squares, 0.0)
        sums = squares.reshape(2, len(exact), -1).sum(axis=2)
        self._sums[name] += sums.sum(axis=1)
        if apart:
            self._samples[name][:, list(samples)] = sums

    def sqnr_db(self, name: str) -> float:
        """``10 log10(signal / noise)``, in dB."""
        return float(_decibels(self._sums[name]))

    def of_samples(self, name: str, count: int) -> tuple[float, ...]:
        """The same of every sample's part; NaN where no part is a sample's own."""
        return tuple(map(float, _decibels(self._samples[name])[:count]))


def _decibels(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    signal, noise = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        return 10 * np.log10(signal / noise)


def _rows_layout(record: ModelRecord, layer: Layer) -> Layout:
    """How padding is told in a layer's output: as in its input, where its rows are positions."""
    layouts = {entry.tensor: entry.layout for entry in record.padding}
    layout = layouts.get(layer.input, "none")
    return layout if layout in ("positions", "flat") else "none"


def _open(model: ir.Model, runtime: RuntimeConfig) -> OnnxRuntimeRunner:
    return OnnxRuntimeRunner(model, runtime)
