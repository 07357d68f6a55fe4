"""The two sides: models that are run, here or on a device, and dumps that were made elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.side_by_side import SideInfo
from quantflow.evaluation.dumps import Dump
from quantflow.evaluation.places import computed
from quantflow.evaluation.side_runner import RunnerSide, RunnerSource
from quantflow.evaluation.subject import Subject
from quantflow.graph.edit import with_outputs
from quantflow.runtime.bucket_run import BucketBatch
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.runner import Runner

Tensors = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class ModelSide:
    """A model in standard operators.

    Attributes:
        info: name and kind.
        model: it reads the inputs of the run's model.
    """

    info: SideInfo
    model: ir.Model

    def has(self, tensors: Sequence[str]) -> list[str]:
        """Those of some tensors that it computes."""
        return computed(self.model, tensors)

    def open(self, tensors: Sequence[str], subject: Subject) -> ModelSource:
        """Make a session that gives some tensors."""
        model = with_outputs(self.model, tensors)
        return ModelSource(OnnxRuntimeRunner(model, subject.runtime))


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Gives the tensors of a batch by running a model."""

    runner: Runner

    def fetch(self, batch: BucketBatch) -> Tensors:
        """The tensors, ``(B, ...)`` of the bucket's batch B where they have a batch."""
        return self.runner.run(batch.feeds)


@dataclass(frozen=True, slots=True)
class DumpSide:
    """Tensors that were written somewhere else.

    Attributes:
        info: name and kind.
        dump: the directory.
        names: the dump's name of every tensor of the run's model that it holds.
    """

    info: SideInfo
    dump: Dump
    names: Mapping[str, str]

    def has(self, tensors: Sequence[str]) -> list[str]:
        """Those of some tensors that it holds."""
        return [name for name in dict.fromkeys(tensors) if name in self.names]

    def open(self, tensors: Sequence[str], subject: Subject) -> DumpSource:
        """Prepare to read some tensors."""
        names = {name: self.names[name] for name in tensors}
        return DumpSource(self.dump, names, subject.shapes(), subject.batch)


@dataclass(frozen=True, slots=True)
class DumpSource:
    """Gives the tensors of a batch out of a dump.

    An array holds one sample, without an axis for it, or samples along the first axis; there they
    may be merged with what follows, as in ``(samples * length, width)``.
    """

    dump: Dump
    names: Mapping[str, str]
    shapes: Mapping[str, tuple[int, ...] | None]
    batch: int

    def fetch(self, batch: BucketBatch) -> Tensors:
        """The tensors of those samples that the dump holds; what does not fit, as it is."""
        return {name: self._rows(name, batch.indices) for name in self.names}

    def samples(self) -> int | None:
        """How many samples all arrays hold, or None where that cannot be told."""
        counts = [self._count(name, self.dump.read(self.names[name]).shape) for name in self.names]
        known = [count for count in counts if count is not None]
        return min(known, default=None)

    def _count(self, name: str, shape: tuple[int, ...]) -> int | None:
        expected = self.shapes.get(name)
        if not expected or expected[0] % self.batch or not shape:
            return None
        rows = expected[0] // self.batch
        if rows == 1 and shape == expected[1:]:
            return 1
        fits = shape[1:] == expected[1:] and not shape[0] % rows
        return shape[0] // rows if fits else None

    def _rows(self, name: str, indices: Sequence[int]) -> NDArray[Any]:
        array = self.dump.read(self.names[name])
        count = self._count(name, array.shape)
        if count is None:
            return array
        expected = self.shapes[name]
        assert expected is not None
        samples = array.reshape(count, expected[0] // self.batch, *expected[1:])
        # As the batch is padded: with the last sample.
        picked = [*indices, *[indices[-1]] * (self.batch - len(indices))]
        return samples[picked].reshape(expected)


Side = ModelSide | DumpSide | RunnerSide
Source = ModelSource | DumpSource | RunnerSource


def comparable(arrays: Sequence[NDArray[Any]]) -> bool:
    """Whether all arrays have one shape, and either floats or integers.

    The int32 accumulator of a lowered layer has the name of the float product.
    """
    return len({(x.shape, np.issubdtype(x.dtype, np.floating)) for x in arrays}) == 1
