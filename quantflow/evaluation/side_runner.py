"""A side that gives the model's outputs and nothing inside it: an .om file, or a torch module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.side_by_side import SideInfo
from quantflow.errors import fail
from quantflow.evaluation.subject import Subject
from quantflow.runtime.bucket_run import BucketBatch
from quantflow.runtime.om_boundary import OmTensor, kind_text
from quantflow.runtime.runner import Runner


@dataclass(frozen=True, slots=True)
class RunnerSide:
    """A model that is open already, and stays so.

    Attributes:
        info: name, kind and what it runs on.
        runner: gives the outputs.
        names: its name of every output of the run's model.
    """

    info: SideInfo
    runner: Runner
    names: Mapping[str, str]

    def has(self, tensors: Sequence[str]) -> list[str]:
        """Those of some tensors that are outputs of the model."""
        return [name for name in dict.fromkeys(tensors) if name in self.names]

    def open(self, tensors: Sequence[str], subject: Subject) -> RunnerSource:
        """Prepare to give some outputs."""
        return RunnerSource(self.runner, {name: self.names[name] for name in tensors})


@dataclass(frozen=True, slots=True)
class RunnerSource:
    """Gives the outputs for a batch."""

    runner: Runner
    names: Mapping[str, str]

    def fetch(self, batch: BucketBatch) -> Mapping[str, NDArray[Any]]:
        """The outputs, ``(B, ...)``; fp16 as float32."""
        values = self.runner.run(batch.feeds)
        return {name: _wide(values[given]) for name, given in self.names.items()}


def _wide(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.float32) if array.dtype == np.float16 else array


def om_names(given: Sequence[str], wanted: Sequence[str], where: str) -> dict[str, str]:
    """The .om's name of every output of the run's model.

    atc names an output ``node:0:name`` or ``node:0``, and keeps their order. Where all names are
    told, they count, else the order.

    Args:
        given: the .om's outputs in order.
        wanted: those of the run's model, in order.
        where: the file, for the message.

    Raises:
        QuantflowError: QF543 when there are more or fewer.
    """
    if len(given) != len(wanted):
        what = f"it has {len(given)} outputs, the run's model {len(wanted)}"
        fail("QF543", what, where=where, fix="give the .om of this run")
    told = {name.rpartition(":")[2]: name for name in given}
    if sorted(told) == sorted(wanted):
        return {name: told[name] for name in wanted}
    return dict(zip(wanted, given, strict=True))


def check_outputs(
    described: Sequence[OmTensor], names: Mapping[str, str], subject: Subject, where: str
) -> None:
    """Refuse an .om whose outputs are not those of the run's model.

    Floats may be of another width: atc computes in fp16.

    Args:
        described: the .om's outputs.
        names: as `om_names` gives them.
        subject: the run's model and bucket.
        where: the file, for the message.

    Raises:
        QuantflowError: QF211 for another shape, and for integers in place of floats or the reverse.
    """
    of_om, shapes = {tensor.name: tensor for tensor in described}, subject.shapes()
    for output in subject.record.outputs:
        tensor, shape = of_om[names[output.name]], shapes.get(output.name)
        floats = [np.issubdtype(np.dtype(x), np.floating) for x in (tensor.dtype, output.dtype)]
        if floats[0] == floats[1] and tensor.shape == (shape or tensor.shape):
            continue
        mine, wanted = (tensor.dtype, tensor.shape), (output.dtype, shape or tensor.shape)
        what = f"its output {tensor.name!r} is {kind_text(*mine)}, not {kind_text(*wanted)}"
        fail("QF211", what, where=where, fix="give the .om of this run and of its first bucket")
