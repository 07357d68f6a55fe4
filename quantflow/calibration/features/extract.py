"""From samples to their features: one family a kind of input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import TensorInfo
from quantflow.calibration.draw import Batch
from quantflow.calibration.features.images import channel_axis, image_features, record_features
from quantflow.calibration.features.script import scripts_of
from quantflow.calibration.features.table import FeatureTable
from quantflow.calibration.features.text import text_features
from quantflow.calibration.features.tokens import token_counts, token_features
from quantflow.calibration.features.values import value_features

Sample = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Extractor:
    """Measures samples and their records, without the model.

    Attributes:
        inputs: of the model, with the batch axis.
        column: where records have their text.
        unknown: id of the token for what the vocabulary lacks, or None.
    """

    inputs: tuple[TensorInfo, ...]
    column: str = "text"
    unknown: int | None = None

    def __call__(self, batch: Batch) -> FeatureTable:
        """Features of some samples, but for `with_counts`.

        Those of text are there when every record holds text, sizes when every record holds an
        image.
        """
        rows = [input_features(sample, self.inputs, self.unknown) for sample in batch.samples]
        categories = dict[str, NDArray[np.int64]]()
        texts = [
            text for record in batch.records if isinstance(text := record.get(self.column), str)
        ]
        if len(texts) == len(rows):
            rows = [{**row, **text_features(text)} for row, text in zip(rows, texts, strict=True)]
            categories = {"text.script": scripts_of(texts)}
        images: list[Any] = [record.get("image") for record in batch.records]
        if all(_is_image(image) for image in images):
            rows = [{**row, **record_features(x)} for row, x in zip(rows, images, strict=True)]
        return FeatureTable(
            ids=tuple(info.id for info in batch.infos),
            digests=tuple(info.digest for info in batch.infos),
            names=tuple(rows[0]),
            values=np.array([list(row.values()) for row in rows], np.float64),
            counts={},
            categories=categories,
        )

    def with_counts(self, table: FeatureTable, samples: Iterable[Sample]) -> FeatureTable:
        """A table with the token frequencies of its samples, 2 KB each."""
        rows = [input_counts(sample, self.inputs) for sample in samples]
        counts = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        return replace(table, counts=counts)


def _is_image(value: object) -> bool:
    """Whether a record holds an image, as an `imagefolder` has them."""
    size = getattr(value, "size", None)
    return isinstance(size, tuple) and len(cast(tuple[object, ...], size)) == 2


def input_features(
    sample: Sample, inputs: Sequence[TensorInfo], unknown: int | None = None
) -> dict[str, float]:
    """Scalar features of a sample's arrays, the same names for every sample of a model.

    Sizes of the free dimensions; with a mask, ``length`` counts the positions that are no padding
    and ``padding_fraction`` is the share of the others, which no other feature sees. Integer inputs
    are taken for tokens, all else for measurements; what has the shape of a picture is described as
    one, too.

    Args:
        sample: arrays without the batch axis.
        inputs: of the model, with the batch axis.
        unknown: see `token_features`.
    """
    found = dict[str, float]()
    mask = next((tensor for tensor in inputs if tensor.mask), None)
    if mask is not None:
        real = int(np.count_nonzero(sample[mask.name]))
        found["length"] = float(real)
        found["padding_fraction"] = 1 - real / sample[mask.name].size
    for tensor, array in arrays_of(sample, inputs):
        for dim, size in zip(tensor.shape[1:], sample[tensor.name].shape, strict=True):
            if isinstance(dim, str) and (mask is None or dim not in mask.shape):
                found[dim] = float(size)
        if holds_tokens(tensor):
            found |= token_features(array, tensor.name, unknown)
        else:
            found |= value_features(array, tensor.name)
            axis = channel_axis(tensor)
            if axis is not None and mask is None:
                found |= image_features(array, tensor.name, axis - 1)
    return found


def input_counts(sample: Sample, inputs: Sequence[TensorInfo]) -> dict[str, NDArray[np.int64]]:
    """Token frequencies of a sample's integer inputs, padding left out."""
    return {
        f"{tensor.name}.frequencies": token_counts(array)
        for tensor, array in arrays_of(sample, inputs)
        if holds_tokens(tensor)
    }


def holds_tokens(tensor: TensorInfo) -> bool:
    """Whether an input is taken for token ids: all integers are, but for the mask."""
    return tensor.dtype in ("int64", "int32")


def arrays_of(
    sample: Sample, inputs: Sequence[TensorInfo]
) -> Iterator[tuple[TensorInfo, NDArray[Any]]]:
    """Every input but the mask, without the positions that the mask calls padding."""
    mask = next((tensor for tensor in inputs if tensor.mask), None)
    for tensor in inputs:
        array = sample[tensor.name]
        if tensor is mask:
            continue
        if mask is not None and array.shape[: sample[mask.name].ndim] == sample[mask.name].shape:
            array = array[sample[mask.name] != 0]
        yield tensor, array
