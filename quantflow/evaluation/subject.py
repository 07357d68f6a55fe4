"""What two sides have in common: the bucket that is run, and how padding is told in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from quantflow.artifacts.export_record import BucketFiles
from quantflow.artifacts.model_record import Layout, ModelRecord
from quantflow.config import RuntimeConfig
from quantflow.graph.edit import static_shape, values_by_name
from quantflow.graph.padding import map_padding
from quantflow.runtime.bucket_run import batch_size


@dataclass(frozen=True, slots=True)
class Subject:
    """A bucket of a run.

    Attributes:
        canonical: the model with its free dimensions, whose axes tell where padding is.
        model: the float model of the bucket, whose order of nodes counts.
        record: boundary, layers and groups.
        bucket: name and sizes.
        runtime: how to run.
        logits: outputs whose last axis holds logits, as the task says.
    """

    canonical: ir.Model
    model: ir.Model
    record: ModelRecord
    bucket: BucketFiles
    runtime: RuntimeConfig
    logits: frozenset[str] = frozenset()

    @property
    def batch(self) -> int:
        """Samples of one inference."""
        return batch_size(self.record, self.bucket.dims)

    def layouts(self, tensors: Iterable[str]) -> dict[str, Layout]:
        """How the axes of some tensors relate to the attention mask."""
        mask, names = self.record.mask, list(dict.fromkeys(tensors))
        if mask is None:
            return dict.fromkeys(names, "none")
        return map_padding(self.canonical, mask.name, names)[0]

    def shapes(self) -> Mapping[str, tuple[int, ...] | None]:
        """The static shape of every value of the float model, as far as it is known."""
        values = values_by_name(self.model)
        return {name: static_shape(value) for name, value in values.items()}
