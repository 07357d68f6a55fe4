"""Running samples through a static model: padded to the bucket, results cut back to the sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import ModelRecord, TensorInfo
from quantflow.errors import fail
from quantflow.runtime.batching import batches
from quantflow.runtime.runner import Feeds, Runner

Outputs = dict[str, NDArray[Any]]


def batch_size(record: ModelRecord, dims: Mapping[str, int]) -> int:
    """Samples that one inference of the bucket takes."""
    first = record.inputs[0].shape[0]
    return first if isinstance(first, int) else dims[first]


def run_samples(
    runners: Sequence[Runner],
    samples: Iterable[Feeds],
    record: ModelRecord,
    dims: Mapping[str, int],
) -> Iterator[tuple[int, list[Outputs]]]:
    """Run every sample through several static models at once.

    Args:
        runners: models of the same bucket, whose outputs are those of `record`.
        samples: arrays without the batch axis.
        record: describes the model's boundary.
        dims: the bucket's sizes.

    Yields:
        Position of the sample, and for every runner its outputs without batch axis and padding.

    Raises:
        QuantflowError: QF320 when a sample does not fit the bucket.
    """
    valid = dict[int, _Extent]()

    def padded() -> Iterator[Feeds]:
        for index, sample in enumerate(samples):
            valid[index] = _extent_of(sample, record)
            yield fit_sample(sample, record, dims)

    for batch in batches(padded(), batch_size(record, dims)):
        results = [runner.run(batch.feeds) for runner in runners]
        for row, index in enumerate(batch.indices):
            extent = valid.pop(index)
            yield (
                index,
                [
                    {
                        info.name: _cut(result[info.name][row], info, extent)
                        for info in record.outputs
                    }
                    for result in results
                ],
            )


def fit_sample(sample: Feeds, record: ModelRecord, dims: Mapping[str, int]) -> Feeds:
    """Pad a sample with zeros to the bucket; only a model with a mask can tell padding."""
    fitted = dict[str, NDArray[Any]]()
    for info in record.inputs:
        array = sample[info.name]
        wanted = [d if isinstance(d, int) else dims[d] for d in info.shape[1:]]
        missing = [size - have for size, have in zip(wanted, array.shape, strict=True)]
        if any(m < 0 for m in missing) or (any(missing) and record.mask is None):
            fail(
                "QF320",
                f"a sample's {info.name} has shape {array.shape}, the bucket takes {tuple(wanted)}",
                where="target.buckets",
                fix="choose a larger bucket, or give all samples the bucket's shape",
            )
        fitted[info.name] = np.pad(array, [(0, m) for m in missing]) if any(missing) else array
    return fitted


class _Extent:
    """What of a padded sample is real: sizes of its dimensions, and the positions that count."""

    def __init__(self, sizes: dict[str, int], length: str, positions: NDArray[np.bool_] | None):
        self.sizes = sizes
        self.length = length
        self.positions = positions


def _extent_of(sample: Feeds, record: ModelRecord) -> _Extent:
    sizes = {
        dim: int(size)
        for info in record.inputs
        for dim, size in zip(info.shape[1:], sample[info.name].shape, strict=True)
        if isinstance(dim, str)
    }
    mask = record.mask
    if mask is None or len(mask.shape) != 2:
        return _Extent(sizes, "", None)
    return _Extent(sizes, str(mask.shape[1]), sample[mask.name].astype(bool))


def _cut(array: NDArray[Any], info: TensorInfo, extent: _Extent) -> NDArray[Any]:
    """Drop what was padded to fit the bucket, then what the mask calls padding."""
    names = info.shape[1:] if len(info.shape) == array.ndim + 1 else ()
    for axis, name in enumerate(names):
        if isinstance(name, str) and name in extent.sizes:
            array = array.take(range(extent.sizes[name]), axis=axis)
    if extent.positions is not None and names and str(names[0]) == extent.length:
        array = array[extent.positions]
    return array
