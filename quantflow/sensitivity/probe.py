"""Samples with what is expected of them: what every variant of a model is measured against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import ModelRecord
from quantflow.numerics.output_metrics import OutputMetric
from quantflow.numerics.token_loss import mean_token_loss
from quantflow.runtime.bucket_run import BucketBatch, Outputs, as_vector, bucket_batches
from quantflow.runtime.output_file import OutputFile
from quantflow.runtime.runner import Feeds
from quantflow.sensitivity.segmented_model import SegmentedModel
from quantflow.tasks.perplexity import logits_of


@dataclass(frozen=True, slots=True)
class Probe:
    """Samples in compute batches, with the float model's output for each.

    Attributes:
        batches: the samples.
        reference: the float model's output for every sample, by its position.
        tokens: ids of every sample, by its position; empty where they are not asked for.
        float_losses: ``(S,)`` float64 mean token loss of the float model, NaN without tokens.
    """

    batches: tuple[BucketBatch, ...]
    reference: OutputFile
    tokens: Mapping[int, NDArray[Any]]
    float_losses: NDArray[np.float64]

    def measure(
        self, results: Iterable[Mapping[str, NDArray[Any]]], metric: OutputMetric
    ) -> NDArray[np.float64]:
        """The metric of every sample.

        Args:
            results: a model's outputs for every batch, in order.
            metric: what to measure, against the reference or the tokens.

        Returns:
            ``(S,)`` float64.
        """
        expected = self.tokens if metric.against == "tokens" else self.reference
        values = np.full(len(self.reference), np.nan)
        for batch, result in zip(self.batches, results, strict=True):
            for index, outputs in zip(batch.indices, batch.outputs_of(result), strict=True):
                values[index] = metric.value(expected[index], _output(outputs))
        return values

    def of_float(self, metric: OutputMetric) -> NDArray[np.float64]:
        """The ``(S,)`` values that the float model has."""
        if metric.perfect is None:
            return self.float_losses
        return np.full(len(self.reference), metric.perfect)


def make_probe(
    model: SegmentedModel,
    samples: Iterable[Feeds],
    record: ModelRecord,
    dims: Mapping[str, int],
    *,
    tokens: str | None = None,
    folder: Path | None = None,
) -> Probe:
    """Run the float model over samples and keep what they give.

    Args:
        model: the bucket in segments.
        samples: arrays without the batch axis.
        record, dims: its boundary and sizes.
        tokens: the input that holds token ids, for metrics that compare with them.
        folder: where outputs are kept on disk.

    Raises:
        QuantflowError: QF310 when there are tokens, and the first output is no logits of them.
    """
    found: Sequence[BucketBatch] = tuple(bucket_batches(samples, record, dims))
    reference, ids = OutputFile(folder), dict[int, NDArray[Any]]()
    losses = dict[int, float]()
    for batch in found:
        outputs = batch.outputs_of(model.run(batch.feeds, frozenset()))
        for index, inputs, output in zip(batch.indices, batch.inputs(), outputs, strict=True):
            reference.add(index, _output(output))
            if tokens is not None:
                ids[index] = inputs[tokens]
                losses[index] = mean_token_loss(ids[index], logits_of(output, ids[index]))
    of_float = np.array([losses.get(index, np.nan) for index in range(len(reference))])
    return Probe(tuple(found), reference, ids, of_float)


def _output(outputs: Outputs) -> NDArray[np.float32]:
    """The one float output as it is, or all of them as one vector."""
    floats = [x for x in outputs.values() if np.issubdtype(x.dtype, np.floating)]
    return floats[0].astype(np.float32, copy=False) if len(floats) == 1 else as_vector(outputs)
