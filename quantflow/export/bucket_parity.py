"""Parity of every bucket: each is a file of its own, and each is what some atc will be given.

Parity compares a layer with the same layer of the twin on the same input, whatever that is. So
samples that do not fit a bucket are cut to it, or padded with zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from quantflow.artifacts.export_record import BucketParity, LayerParity, ParityReport
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.record import Verdict, worst
from quantflow.runtime.runner import Feeds


def cut_to_bucket(sample: Feeds, record: ModelRecord, dims: Mapping[str, int]) -> Feeds:
    """A sample of the bucket's shape: what is too long is cut off, what is missing is zero.

    Args:
        sample: arrays without the batch axis.
        record: describes the model's inputs.
        dims: the bucket's sizes.
    """
    fitted = dict[str, np.ndarray]()
    for info in record.inputs:
        sizes = [dim if isinstance(dim, int) else dims[dim] for dim in info.shape[1:]]
        array = sample[info.name][tuple(slice(size) for size in sizes)]
        lacking = [(0, size - have) for size, have in zip(sizes, array.shape, strict=True)]
        fitted[info.name] = np.pad(array, lacking) if lacking else array
    return fitted


def all_buckets(reports: Mapping[str, ParityReport], samples: int) -> ParityReport:
    """One report of several buckets: the worst of each layer, and each bucket's verdict.

    Args:
        reports: by name of the bucket, at least one.
        samples: that each was shown on.
    """
    rows = [report.layers for report in reports.values()]
    verdicts: list[Verdict] = [report.verdict for report in reports.values()]
    return ParityReport(
        verdict=worst(*verdicts),
        cosine_min=min(report.cosine_min for report in reports.values()),
        layers=tuple(_worst_layer(same) for same in zip(*rows, strict=True)),
        buckets=tuple(
            BucketParity(bucket=name, verdict=x.verdict, cosine_min=x.cosine_min, samples=samples)
            for name, x in reports.items()
        ),
    )


def _worst_layer(rows: Sequence[LayerParity]) -> LayerParity:
    return LayerParity(
        layer=rows[0].layer,
        cosine=min(row.cosine for row in rows),
        int32_exact=all(row.int32_exact for row in rows),
        int8_equal_fraction=min(row.int8_equal_fraction for row in rows),
    )
