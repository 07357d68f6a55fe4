"""fp32, fp16 and int8 side by side on samples that nothing was calibrated with."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.scratch import ArrayFile
from quantflow.evaluation.precisions import OnDemand
from quantflow.numerics.error_metrics import cosine, max_abs_error
from quantflow.progress import Progress
from quantflow.runtime.bucket_run import Outputs, as_vector, bucket_batches
from quantflow.runtime.runner import Feeds, Runner
from quantflow.tasks.metrics import Judged

REFERENCE = "fp32"

Observer = Callable[[str, int, Judged], None]
"""Told a model's name, a sample's position, and what the reference and the model made of it."""


@dataclass(frozen=True, slots=True)
class Closeness:
    """How close each sample's outputs are to the reference.

    Attributes:
        cosine: ``(S,)`` float64, of all float outputs of a sample as one vector.
        max_abs_error: ``(S,)`` float64, NaN where a value is not finite.
    """

    cosine: NDArray[np.float64]
    max_abs_error: NDArray[np.float64]


def _not_observed(name: str, index: int, judged: Judged) -> None:
    """Nobody asked."""


def compare_outputs(
    reference: Runner,
    others: Mapping[str, Runner],
    samples: Iterable[Feeds],
    ids: Sequence[str],
    record: ModelRecord,
    dims: Mapping[str, int],
    progress: Progress,
    observe: Observer = _not_observed,
) -> dict[str, Closeness]:
    """Run every sample through all models and measure their outputs against the reference's.

    The models run one after the other, and those made on demand are given up when they are done;
    the reference's outputs wait on disk.

    Args:
        reference: the float32 bucket.
        others: models of the same bucket, by name.
        samples: arrays without the batch axis, read once for every model.
        ids: of all samples.
        record, dims: boundary and sizes of the bucket.
        progress: called after every sample that a model has run.
        observe: told what every model makes of every sample, the reference as `fp32`.
    """
    count, ticks = len(ids), itertools.count(1)
    total = count * (1 + len(others))
    expected = ArrayFile()
    for index, inputs, outputs in _outputs(reference, samples, record, dims):
        observe(REFERENCE, index, Judged(ids[index], inputs, outputs, outputs))
        for name, array in outputs.items():
            expected.add((index, name), array)
        progress(_LABEL, next(ticks), total)
    found = dict[str, Closeness]()
    for name, runner in others.items():
        cosines, errors = np.full((2, count), np.nan)
        for index, inputs, outputs in _outputs(runner, samples, record, dims):
            exact = {output: expected[index, output] for output in outputs}
            observe(name, index, Judged(ids[index], inputs, exact, outputs))
            a, b = as_vector(exact), as_vector(outputs)
            cosines[index], errors[index] = cosine(a[None], b[None])[0], max_abs_error(a, b)
            progress(_LABEL, next(ticks), total)
        found[name] = Closeness(cosines, errors)
    return found


_LABEL = "comparing fp32, fp16 and int8"


def _outputs(
    runner: Runner, samples: Iterable[Feeds], record: ModelRecord, dims: Mapping[str, int]
) -> Iterator[tuple[int, Outputs, Outputs]]:
    """Position, inputs and outputs of every sample without padding; then the model is given up."""
    for batch in bucket_batches(samples, record, dims):
        outputs = batch.outputs_of(runner.run(batch.feeds))
        yield from zip(batch.indices, batch.inputs(), outputs, strict=True)
    if isinstance(runner, OnDemand):
        runner.close()
