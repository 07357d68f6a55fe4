"""What hygiene keeps of a sample: a signature to compare it by, and whether anything is in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import TensorInfo
from quantflow.artifacts.sample_set import SampleInfo
from quantflow.calibration.features.extract import arrays_of, holds_tokens
from quantflow.calibration.features.images import channel_axis
from quantflow.calibration.hygiene import minhash, pooled_grid

Sample = Mapping[str, NDArray[Any]]

NO_FILLER: Final = -1
"""Stands for a sample whose tokens neither begin nor end with a repeated one."""


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """What is kept of N samples, under 300 bytes each besides their names.

    Attributes:
        infos: where every sample came from, and its content digest.
        kind: what `signatures` are: MinHash of the `tokens`, or pooled grids of the `values`.
        signatures: ``(N, 64) uint32`` or ``(N, 256) int8``.
        constant: ``(N, I)``: whether all values of an input are equal, by the order of `inputs`.
        inputs: ``(I,)`` all but the mask.
        masked: whether the model has a mask, which could say what is padding.
        filler: ``(N,)`` int64: the token that a sample begins or ends with twice or more, among the
            positions that the mask keeps; else `NO_FILLER`.
        run: ``(N,)`` int64: how many of it there are in a row; 0 without one.
    """

    infos: tuple[SampleInfo, ...]
    kind: Literal["tokens", "values"]
    signatures: NDArray[Any]
    constant: NDArray[np.bool_]
    inputs: tuple[TensorInfo, ...]
    masked: bool
    filler: NDArray[np.int64]
    run: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.infos)

    def take(self, rows: Sequence[int]) -> Fingerprints:
        """The samples at some positions, in that order."""
        index = np.array(rows, np.intp)
        return replace(
            self,
            infos=tuple(self.infos[row] for row in rows),
            signatures=self.signatures[index],
            constant=self.constant[index],
            filler=self.filler[index],
            run=self.run[index],
        )


def fingerprints(
    infos: Sequence[SampleInfo], samples: Sequence[Sample], inputs: Sequence[TensorInfo]
) -> Fingerprints:
    """Look at some samples.

    Tokens are compared where the model takes any: that is what it sees of a text, cut to its
    length. Else it is the input with the most axes.

    Args:
        infos: of the samples.
        samples: arrays without the batch axis, that passed `check_sample`.
        inputs: of the model, with the batch axis.
    """
    others = tuple(tensor for tensor in inputs if not tensor.mask)
    tokens = any(map(holds_tokens, others))
    rows = [[array for _, array in arrays_of(sample, inputs)] for sample in samples]
    find = _token_signature if tokens else _grid
    width, dtype = (minhash.PERMUTATIONS, np.uint32) if tokens else (pooled_grid.SIDE**2, np.int8)
    signatures = np.array([find(row, others) for row in rows], dtype).reshape(-1, width)
    constant = [[_is_constant(array) for array in row] for row in rows]
    filler = [_filler(row, others) if tokens else (NO_FILLER, 0) for row in rows]
    found = np.array(filler, np.int64).reshape(-1, 2)
    return Fingerprints(
        infos=tuple(infos),
        kind="tokens" if tokens else "values",
        signatures=signatures,
        constant=np.array(constant, np.bool_).reshape(-1, len(others)),
        inputs=others,
        masked=len(others) < len(inputs),
        filler=found[:, 0],
        run=found[:, 1],
    )


def join(parts: Sequence[Fingerprints]) -> Fingerprints:
    """The samples of all parts, at least one, which were made for the same inputs."""
    return replace(
        parts[0],
        infos=tuple(info for part in parts for info in part.infos),
        signatures=np.concatenate([part.signatures for part in parts]),
        constant=np.concatenate([part.constant for part in parts]),
        filler=np.concatenate([part.filler for part in parts]),
        run=np.concatenate([part.run for part in parts]),
    )


def near_groups(prints: Fingerprints) -> NDArray[np.intp]:
    """``(N,)`` the group of near duplicates that every sample is of."""
    near = minhash.near_duplicates if prints.kind == "tokens" else pooled_grid.near_duplicates
    return near(prints.signatures)


def _token_signature(
    row: Sequence[NDArray[Any]], inputs: Sequence[TensorInfo]
) -> NDArray[np.uint32]:
    """By the token inputs but those that merely count or repeat: positions, token types."""
    tokens = [array for array, tensor in zip(row, inputs, strict=True) if holds_tokens(tensor)]
    telling = [array for array in tokens if not _is_even(array)]
    return minhash.signature(telling or tokens)


def _grid(row: Sequence[NDArray[Any]], inputs: Sequence[TensorInfo]) -> NDArray[np.int8]:
    place = max(range(len(inputs)), key=lambda i: len(inputs[i].shape))
    axis, whole = channel_axis(inputs[place]), row[place].ndim == len(inputs[place].shape) - 1
    return pooled_grid.pooled_grid(row[place], axis - 1 if axis is not None and whole else None)


def _is_even(array: NDArray[Any]) -> bool:
    """Whether values go up or down by the same step throughout."""
    steps = np.diff(array, axis=-1) if array.ndim else array
    return array.size > 2 and bool((steps == steps.flat[:1]).all())


def _is_constant(array: NDArray[Any]) -> bool:
    return array.size > 1 and bool((array == array.flat[0]).all())


def _filler(row: Sequence[NDArray[Any]], inputs: Sequence[TensorInfo]) -> tuple[int, int]:
    """The repeated token at the end, else at the beginning, of the first token input; how often."""
    place = next(i for i, tensor in enumerate(inputs) if holds_tokens(tensor))
    tokens = row[place].ravel()
    for read in (tokens[::-1], tokens):
        others = np.flatnonzero(read != read[:1])
        run = int(others[0]) if len(others) else len(read)
        if run > 1:
            return int(read[0]), run
    return NO_FILLER, 0
