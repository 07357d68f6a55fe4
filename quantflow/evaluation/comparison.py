"""fp32, fp16 and int8 side by side on samples that nothing was calibrated with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import ModelRecord
from quantflow.numerics.error_metrics import cosine
from quantflow.progress import Progress
from quantflow.runtime.bucket_run import as_vector, run_samples
from quantflow.runtime.runner import Feeds, Runner


@dataclass(frozen=True, slots=True)
class Closeness:
    """How close each sample's outputs are to the reference.

    Attributes:
        cosine: ``(S,)`` float64, of all float outputs of a sample as one vector.
        max_abs_error: ``(S,)`` float64, NaN where a value is not finite.
    """

    cosine: NDArray[np.float64]
    max_abs_error: NDArray[np.float64]


def compare_outputs(
    reference: Runner,
    others: Mapping[str, Runner],
    samples: Iterable[Feeds],
    count: int,
    record: ModelRecord,
    dims: Mapping[str, int],
    progress: Progress,
) -> dict[str, Closeness]:
    """Run every sample through all models and measure their outputs against the reference's.

    Args:
        reference: the float32 bucket.
        others: models of the same bucket, by name.
        samples: arrays without the batch axis.
        count: how many there are.
        record, dims: boundary and sizes of the bucket.
        progress: called after every sample.
    """
    cosines = {name: np.full(count, np.nan) for name in others}
    errors = {name: np.full(count, np.nan) for name in others}
    runners = [reference, *others.values()]
    for done, (index, results) in enumerate(run_samples(runners, samples, record, dims), 1):
        expected = as_vector(results[0])
        for name, result in zip(others, results[1:], strict=True):
            vector = as_vector(result)
            cosines[name][index] = cosine(expected[None], vector[None])[0]
            with np.errstate(invalid="ignore"):
                errors[name][index] = np.abs(vector.astype(np.float64) - expected).max(initial=0)
        progress("comparing fp32, fp16 and int8", done, count)
    return {name: Closeness(cosines[name], errors[name]) for name in others}


def collect_outputs(
    runners: Sequence[Runner],
    samples: Iterable[Feeds],
    record: ModelRecord,
    dims: Mapping[str, int],
) -> list[NDArray[np.float32]]:
    """The outputs of every sample as one row, ``(S, D)`` float32 for each runner.

    Meant for tasks, whose outputs are small: embeddings, class scores.
    """
    rows = sorted(run_samples(runners, samples, record, dims), key=lambda pair: pair[0])
    return [np.stack([as_vector(results[i]) for _, results in rows]) for i in range(len(runners))]
