# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""A set of samples on disk: `set.json` and one safetensors file, read sample by sample.

A sample is one array per model input, without the batch axis. Lengths may differ from sample to
sample. Arrays are stored under ``<index>/<input>`` and memory-mapped when read, so that a set may
be larger than memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.record import Record
from quantflow.errors import fail

Sample = Mapping[str, NDArray[Any]]

_MAPPED_BYTES = 64 * 2**20
"""Read through one mapping of the file: its pages count as memory until it is closed."""


class SampleInfo(Record):
    """One sample.

    Attributes:
        id: says where it came from, such as ``candidates[17]``; unique in the set.
        digest: SHA-256 of its arrays (names, dtypes, shapes and bytes).
        preview: a few words of its text, where it has any.
    """

    id: str
    digest: str
    preview: str = ""


class SetRecord(Record):
    """Describes a set: `set.json`.

    Attributes:
        name: `calibration`, `heldout`, `evaluation` or `deployment`; of the task's own records
            `task`, or `queries` and `documents`.
        source: where the records came from.
        inputs: numpy dtype of every input.
        samples: in the order they are read.
        padding_fraction: share of positions that the mask marks as padding, 0-1, if it has one.
        duplicates: samples whose arrays equal those of an earlier one.
        overlap: records passed over, since a set drawn before holds equal ones.
        notes: what a person should know about how the set came about.
    """

    name: str
    source: str
    inputs: dict[str, str]
    samples: tuple[SampleInfo, ...]
    padding_fraction: float | None
    duplicates: int
    overlap: int = 0
    notes: tuple[str, ...] = ()


def sample_digest(sample: Sample) -> str:
    """Digest of a sample's arrays."""
    digest = hashlib.sha256()
    for name in sorted(sample):
        array = np.asarray(sample[name], order="C")
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def write_set(directory: Path, record: SetRecord, samples: Sequence[Sample]) -> None:
    """Write `record` and the arrays of its samples, in the same order."""
    if len(record.samples) != len(samples):
        raise ValueError("one record entry per sample")
    arrays = {
        f"{index}/{name}": np.asarray(array, order="C")
        for index, sample in enumerate(samples)
        for name, array in sample.items()
    }
    write_atomically(directory / "samples.safetensors", save(arrays))
    record.write(directory / "set.json")


class SampleSet:
    """A set on disk. Iterating reads one sample at a time, as often as one likes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.record = SetRecord.read(directory / "set.json")

    def __len__(self) -> int:
        return len(self.record.samples)

    @property
    def ids(self) -> list[str]:
        """The samples' ids, in order."""
        return [sample.id for sample in self.record.samples]

    @property
    def digests(self) -> list[str]:
        """The samples' content digests, in order."""
        return [sample.digest for sample in self.record.samples]

    def first(self, count: int) -> Iterator[dict[str, NDArray[Any]]]:
        """The first `count` samples."""
        return islice(self, count)

    def __iter__(self) -> Iterator[dict[str, NDArray[Any]]]:
        path = self.directory / "samples.safetensors"
        index = 0
        try:
            while index < len(self):
                with safe_open(path, framework="numpy") as stream:
                    mapped = 0
                    while index < len(self) and mapped < _MAPPED_BYTES:
                        sample: dict[str, NDArray[Any]] = {
                            name: stream.get_tensor(f"{index}/{name}")
                            for name in self.record.inputs
                        }
                        mapped += sum(array.nbytes for array in sample.values())
                        index += 1
                        yield sample
        except (OSError, SafetensorError) as error:
            fail(
                "QF403",
                f"samples cannot be read: {error}",
                where=str(path),
                fix="rerun `quantflow build-set --force`",
            )
