"""The range of every quantizable tensor, and what all candidates would do to it on both splits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Group
from quantflow.artifacts.ranges_record import ClippingRow, Split, TensorRange
from quantflow.config import QuantizationConfig
from quantflow.progress import Progress, no_progress
from quantflow.ranges.clipping import Subject, clipping_rows
from quantflow.ranges.collect import Collection
from quantflow.ranges.estimators import EstimatorSettings
from quantflow.ranges.select import select_range

Weights = Callable[[str], Sequence[NDArray[np.float32]]]
"""The ``(K, N_i)`` float32 weights of the layers that read a tensor."""


def choose_ranges(
    groups: Sequence[Group],
    weights: Weights,
    seen: Mapping[Split, Collection],
    config: QuantizationConfig,
    progress: Progress = no_progress,
) -> tuple[list[TensorRange], list[ClippingRow]]:
    """Choose a range for every group's tensor, and report on every candidate.

    Args:
        groups: whose tensors are quantized.
        weights: of the layers that read a tensor.
        seen: statistics of both splits; those of the calibration samples decide.
        config: which estimator, and how weights and activations are quantized.
        progress: called after every tensor.

    Returns:
        Ranges in the order of the groups; rows by tensor, then split, then candidate.
    """

    ranges, rows = list[TensorRange](), list[ClippingRow]()
    for done, group in enumerate(groups, 1):
        chosen, found = _choose(group, weights(group.tensor), seen, config)
        ranges.append(chosen)
        rows += found
        progress("ranges", done, len(groups))
    return ranges, rows


def _choose(
    group: Group,
    weights: Sequence[NDArray[np.float32]],
    seen: Mapping[Split, Collection],
    config: QuantizationConfig,
) -> tuple[TensorRange, list[ClippingRow]]:
    calibrated = seen["calibration"].tensors[group.tensor]
    selection = select_range(
        calibrated,
        weights,
        EstimatorSettings(symmetric=config.symmetric, percentile=config.percentile),
        estimator=config.estimator,
        per_channel=config.weight_granularity == "per-channel",
    )
    rows = list[ClippingRow]()
    for split in get_args(Split):
        tensor = seen[split].tensors[group.tensor]
        subject = Subject(
            tensor=group.tensor,
            group=group.name,
            split=split,
            symmetric=config.symmetric,
            ids=seen[split].ids,
            sample_low=tensor.sample_low,
            sample_high=tensor.sample_high,
            calibrated=calibrated.histogram if split == "heldout" else None,
        )
        rows += clipping_rows(tensor.histogram, selection.candidates, selection.chosen, subject)
    return selection.range_of(group.tensor, symmetric=config.symmetric), rows
