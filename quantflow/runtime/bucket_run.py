"""Running samples through a static model: padded to the bucket, results cut back to the sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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


def fit_sample(
    sample: Feeds,
    record: ModelRecord,
    dims: Mapping[str, int],
    others: Iterable[Mapping[str, int]] = (),
) -> Feeds:
    """Pad a sample with zeros to the bucket, along the mask: nothing else can tell padding.

    Args:
        sample: arrays without the batch axis.
        record: describes the model's boundary.
        dims: the bucket's sizes.
        others: further buckets that are listed, for the advice.

    Raises:
        QuantflowError: QF320 when the sample does not fit.
    """
    fitted = dict[str, NDArray[Any]]()
    masked = record.mask.shape[1:] if record.mask is not None else ()

    def fits(dims: Mapping[str, int]) -> bool:
        gaps = [_missing(sample[info.name], info, masked, dims) for info in record.inputs]
        return None not in gaps

    for info in record.inputs:
        array = sample[info.name]
        missing = _missing(array, info, masked, dims)
        if missing is None:
            wanted = tuple(d if isinstance(d, int) else dims[d] for d in info.shape[1:])
            fail(
                "QF320",
                f"a sample's {info.name} has shape {array.shape}, the bucket takes {wanted}",
                where="target.buckets",
                fix=_LARGEST_FIRST if any(fits(other) for other in others) else _OTHER_SHAPE,
            )
        fitted[info.name] = np.pad(array, [(0, m) for m in missing]) if any(missing) else array
    return fitted


_LARGEST_FIRST = "the first bucket is the one that is evaluated: put the largest first"
_OTHER_SHAPE = "choose a larger bucket, or give all samples the bucket's shape"


def _missing(
    array: NDArray[Any], info: TensorInfo, masked: Sequence[int | str], dims: Mapping[str, int]
) -> list[int] | None:
    """What every axis lacks of the bucket's size, or None where the array does not fit."""
    wanted = [d if isinstance(d, int) else dims[d] for d in info.shape[1:]]
    missing = [size - have for size, have in zip(wanted, array.shape, strict=True)]
    unmarked = [m for m, d in zip(missing, info.shape[1:], strict=True) if d not in masked]
    return None if any(m < 0 for m in missing) or any(unmarked) else missing


@dataclass(frozen=True, slots=True)
class _Extent:
    """What of a padded sample is real.

    Attributes:
        sizes: of its free dimensions, before it was padded.
        length: name of the dimension that the mask runs along, or empty.
        positions: ``(length,)`` true where the mask says so, or None without a mask.
    """

    sizes: dict[str, int]
    length: str
    positions: NDArray[np.bool_] | None


@dataclass(frozen=True, slots=True)
class BucketBatch:
    """Samples that run together in a bucket.

    Attributes:
        indices: position of every sample in the set.
        feeds: one array per input, of the bucket's static shape.
        extents: what of each sample is real.
        infos: the model's outputs.
        input_infos: its inputs.
    """

    indices: tuple[int, ...]
    feeds: dict[str, NDArray[Any]]
    extents: tuple[_Extent, ...]
    infos: tuple[TensorInfo, ...]
    input_infos: tuple[TensorInfo, ...] = ()

    def inputs(self) -> list[dict[str, NDArray[Any]]]:
        """Every sample's inputs, without batch axis and padding: what its outputs are for."""
        return [
            {info.name: _cut(self.feeds[info.name][row], info, extent) for info in self.input_infos}
            for row, extent in enumerate(self.extents)
        ]

    def outputs_of(self, values: Mapping[str, NDArray[Any]]) -> list[Outputs]:
        """Every sample's outputs, without batch axis and padding.

        Args:
            values: the model's outputs for `feeds`, by name.

        Raises:
            QuantflowError: QF212 for an output whose first axis is not the batch.
        """
        size = len(next(iter(self.feeds.values())))
        for info in self.infos:
            shape = values[info.name].shape
            if not shape or shape[0] != size:
                fail(
                    "QF212",
                    f"output {info.name!r} has shape {shape}, its first axis is not the batch "
                    f"of {size}",
                    where="the model's outputs",
                    fix="let the model return one entry per sample along the first axis",
                )
        return [
            {info.name: _cut(values[info.name][row], info, extent) for info in self.infos}
            for row, extent in enumerate(self.extents)
        ]


def bucket_batches(
    samples: Iterable[Feeds], record: ModelRecord, dims: Mapping[str, int]
) -> Iterator[BucketBatch]:
    """Pad samples to a bucket and group them.

    Args:
        samples: arrays without the batch axis.
        record: describes the model's boundary.
        dims: the bucket's sizes.

    Raises:
        QuantflowError: QF320 when a sample does not fit the bucket.
    """
    extents = dict[int, _Extent]()

    def padded() -> Iterator[Feeds]:
        for index, sample in enumerate(samples):
            extents[index] = _extent_of(sample, record)
            yield fit_sample(sample, record, dims)

    for batch in batches(padded(), batch_size(record, dims)):
        real = tuple(extents.pop(index) for index in batch.indices)
        yield BucketBatch(batch.indices, batch.feeds, real, record.outputs, record.inputs)


def run_samples(
    runners: Sequence[Runner],
    samples: Iterable[Feeds],
    record: ModelRecord,
    dims: Mapping[str, int],
) -> Iterator[tuple[int, list[Outputs]]]:
    """Run every sample through several static models at once.

    Args:
        runners: models of the same bucket, whose outputs are those of `record`.
        samples, record, dims: see `bucket_batches`.

    Yields:
        Position of the sample, and for every runner its outputs without batch axis and padding.
    """
    for batch in bucket_batches(samples, record, dims):
        results = [batch.outputs_of(runner.run(batch.feeds)) for runner in runners]
        for row, index in enumerate(batch.indices):
            yield index, [outputs[row] for outputs in results]


def as_vector(outputs: Outputs) -> NDArray[np.float32]:
    """All float outputs of a sample, one after the other."""
    parts = [x.ravel() for x in outputs.values() if np.issubdtype(x.dtype, np.floating)]
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts or [np.zeros(0, np.float32)])
    return whole.astype(np.float32, copy=False)


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
            array = array[(slice(None),) * axis + (slice(extent.sizes[name]),)]
    # A fixed length is a mere number, which the width of an embedding may equal.
    first = names[0] if names and (isinstance(names[0], str) or len(names) > 1) else ""
    if extent.positions is not None and str(first) == extent.length:
        array = array[extent.positions]
    return array
