"""`50_om/manifest.json`: what a server needs to know to load and feed the .om files."""

from __future__ import annotations

from typing import Literal

from quantflow.artifacts.record import Record

RULE = "the first bucket whose dims are all at least those of the request; smallest come first"
"""How a server picks a bucket."""


class ManifestTensor(Record):
    """An input or output.

    Attributes:
        name: in the ONNX model.
        dtype: numpy's name for it.
        shape: static.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]


class OmFile(Record):
    """An .om file that is there.

    Attributes:
        file: relative to `50_om`.
        sha256, size: of it; its size in bytes.
    """

    file: str
    sha256: str
    size: int


class ManifestBucket(Record):
    """One bucket.

    Attributes:
        name: such as ``batch1_length128``.
        dims: value of every free dimension.
        inputs, outputs: in the order of the graph that atc was given, dtypes as in that graph.
        int8: the INT8 model; None while it is not converted.
        fp16: the float model that it replaces; None while, or where, it is not converted.
    """

    name: str
    dims: dict[str, int]
    inputs: tuple[ManifestTensor, ...]
    outputs: tuple[ManifestTensor, ...]
    int8: OmFile | None = None
    fp16: OmFile | None = None


class OmManifest(Record):
    """`manifest.json`.

    Attributes:
        format: version of this layout.
        chip: that all files were compiled for.
        plan: SHA-256 of the one precision plan that all buckets are made by.
        rule: how to pick a bucket.
        buckets: by number of elements, then by name.
    """

    format: Literal[1] = 1
    chip: str
    plan: str
    rule: str = RULE
    buckets: tuple[ManifestBucket, ...]
