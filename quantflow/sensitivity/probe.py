"""Samples with their float32 outputs: what every variant of a model is measured against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import ModelRecord
from quantflow.numerics.output_metrics import OutputMetric
from quantflow.runtime.bucket_run import BucketBatch, Outputs, as_vector, bucket_batches
from quantflow.runtime.runner import Feeds
from quantflow.sensitivity.segmented_model import SegmentedModel


@dataclass(frozen=True, slots=True)
class Probe:
    """Samples in compute batches, with the float model's output for each.

    Attributes:
        batches: the samples.
        reference: output of every sample, in the order of the batches' indices.
    """

    batches: tuple[BucketBatch, ...]
    reference: dict[int, NDArray[np.float32]]

    def measure(
        self, results: Iterable[Mapping[str, NDArray[Any]]], metric: OutputMetric
    ) -> NDArray[np.float64]:
        """The metric of every sample.

        Args:
            results: a model's outputs for every batch, in order.
            metric: what to measure against the reference.

        Returns:
            ``(S,)`` float64.
        """
        values = np.full(len(self.reference), np.nan)
        for batch, result in zip(self.batches, results, strict=True):
            for index, outputs in zip(batch.indices, batch.outputs_of(result), strict=True):
                values[index] = metric.value(self.reference[index], _output(outputs))
        return values


def make_probe(
    model: SegmentedModel,
    samples: Iterable[Feeds],
    record: ModelRecord,
    dims: Mapping[str, int],
) -> Probe:
    """Run the float model over samples and keep what they give."""
    found: Sequence[BucketBatch] = tuple(bucket_batches(samples, record, dims))
    reference = dict[int, NDArray[np.float32]]()
    for batch in found:
        outputs = batch.outputs_of(model.run(batch.feeds, frozenset()))
        reference |= {i: _output(x) for i, x in zip(batch.indices, outputs, strict=True)}
    return Probe(tuple(found), reference)


def _output(outputs: Outputs) -> NDArray[np.float32]:
    """The one float output as it is, or all of them as one vector."""
    floats = [x for x in outputs.values() if np.issubdtype(x.dtype, np.floating)]
    return floats[0].astype(np.float32) if len(floats) == 1 else as_vector(outputs)
