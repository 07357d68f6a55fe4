"""`manifest.json`, for whoever serves the .om files."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path

import onnx_ir as ir

from quantflow.artifacts.digest import file_digest
from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.om_manifest import ManifestBucket, ManifestTensor, OmFile, OmManifest
from quantflow.artifacts.om_record import Conversion, ConversionKind
from quantflow.config import LoadedConfig
from quantflow.graph.model_io import load_model

MANIFEST = "manifest.json"


def write_manifest(
    loaded: LoadedConfig,
    export: ExportRecord,
    export_dir: Path,
    out_dir: Path,
    conversions: Sequence[Conversion],
) -> OmManifest:
    """Write `manifest.json`.

    Args:
        loaded: gives the chip.
        export: gives the buckets.
        export_dir: holds the plan and the deploy models.
        out_dir: the hand-over folder.
        conversions: what became of them.
    """
    plan = export_dir / "plan.json"
    buckets = [
        ManifestBucket(
            name=bucket.name,
            dims=bucket.dims,
            inputs=tuple(_described(x) for x in inputs if not x.is_initializer()),
            outputs=tuple(_described(x) for x in outputs),
            int8=_file(conversions, bucket.name, "int8"),
            fp16=_file(conversions, bucket.name, "fp16"),
        )
        for bucket in export.buckets
        for inputs, outputs in [_boundary(export_dir / bucket.deploy)]
    ]
    manifest = OmManifest(
        chip=loaded.config.target.chip,
        plan=file_digest(plan) if plan.is_file() else "",
        buckets=tuple(sorted(buckets, key=lambda x: (prod(x.dims.values()), x.name))),
    )
    manifest.write(out_dir / MANIFEST)
    return manifest


def _boundary(deploy: Path) -> tuple[Sequence[ir.Value], Sequence[ir.Value]]:
    graph = load_model(deploy).graph
    return list(graph.inputs), list(graph.outputs)


def _described(value: ir.Value) -> ManifestTensor:
    dims = value.shape.dims if value.shape is not None else ()
    return ManifestTensor(
        name=str(value.name),
        dtype=value.dtype.numpy().name if value.dtype is not None else "?",
        shape=tuple(dim if isinstance(dim, int) else -1 for dim in dims),
    )


def _file(conversions: Sequence[Conversion], bucket: str, kind: ConversionKind) -> OmFile | None:
    for x in conversions:
        if (x.bucket, x.kind) == (bucket, kind) and x.om and x.sha256 and x.size is not None:
            return OmFile(file=x.om, sha256=x.sha256, size=x.size)
    return None
