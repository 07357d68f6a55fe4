"""What is to be converted: of every bucket the INT8 and the fp16 model, and the probes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from quantflow.artifacts.export_record import BucketFiles, ExportRecord
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.om_record import Conversion, ConversionKind, OmStatus
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.ascend.command import planned_arguments
from quantflow.ascend.preflight import is_int8
from quantflow.ascend.probe_cases import probe_cases
from quantflow.ascend.probe_model import INPUT
from quantflow.config import AtcConfig, LoadedConfig
from quantflow.errors import QuantflowError, fail
from quantflow.export.deployed import deployed_layers
from quantflow.export.keep_dtype import keep_dtype
from quantflow.graph.model_io import load_model

PROBES = "probes"
"""Folder of the probes in the hand-over folder."""


@dataclass(frozen=True, slots=True)
class WantedConversion:
    """One model that is to become an .om file.

    Attributes:
        kind: what it is for.
        bucket: name of its bucket; empty for a probe.
        folder: where its files lie now.
        files: `name` is that of the conversion and its .om file, `deploy` the model's file;
            `input_shapes` and `keep_dtype` are what atc is told.
        keep_dtype_text: content of a keep_dtype file that does not lie in `folder`, else None.
        unkept: fp32 islands that no file can keep in fp32.
    """

    kind: ConversionKind
    bucket: str
    folder: Path
    files: BucketFiles
    keep_dtype_text: str | None = None
    unkept: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the conversion and of its .om file, without suffix."""
        return self.files.name

    def arguments(self, loaded: LoadedConfig) -> list[str]:
        """Of atc; paths are relative to the hand-over folder.

        Raises:
            QuantflowError: QF104 when an option's path names a package that is not installed.
        """
        return planned_arguments(loaded, self.files, own_options=self.kind != "probe")

    def command(self, loaded: LoadedConfig) -> tuple[str, ...]:
        """The configured atc with these arguments.

        Raises:
            QuantflowError: as `arguments`.
        """
        return (loaded.config.atc.executable, *self.arguments(loaded))


@dataclass(frozen=True, slots=True)
class PlannedConversion:
    """One conversion, ready to run in the hand-over folder.

    Attributes:
        wanted: what it is of.
        arguments: of atc; paths are relative to the folder.
        digests: of every file that it reads, by place in the folder.
        digest: of all that decides its result.
    """

    wanted: WantedConversion
    arguments: tuple[str, ...]
    digests: dict[str, str]
    digest: str

    @property
    def name(self) -> str:
        """Name of the conversion and of its .om file, without suffix."""
        return self.wanted.name

    def came_to(self, executable: str, status: OmStatus, reason: str = "") -> Conversion:
        """What came of it, without a file.

        Args:
            executable: atc, as it was called or would be.
            status, reason: of the conversion.
        """
        return Conversion(
            name=self.name,
            bucket=self.wanted.bucket,
            kind=self.wanted.kind,
            status=status,
            reason=reason,
            command=(executable, *self.arguments),
            digest=self.digest,
        )


def wanted_conversions(
    atc: AtcConfig, export: ExportRecord, export_dir: Path, out_dir: Path
) -> Iterator[WantedConversion]:
    """The conversions of every bucket, the INT8 one first, then those of the probes.

    Args:
        atc: says whether fp16 models and probes are wanted.
        export: what stage 4 wrote.
        export_dir: where it wrote it.
        out_dir: where `write_probes` writes, or will, into `probes`.

    Raises:
        QuantflowError: QF401 or QF402 when plan.json cannot be read, QF201 when a float twin
            cannot.
    """
    yield from _of_buckets(export, export_dir, baseline=atc.baseline)
    if atc.probes and any(is_int8(bucket) for bucket in export.buckets):
        yield from _of_probes(out_dir)


def _of_probes(out_dir: Path) -> Iterator[WantedConversion]:
    for case in probe_cases():
        files = BucketFiles(
            name=case.name,
            dims={},
            input_shapes={INPUT: case.x.shape},
            deploy=f"{PROBES}/{case.name}.onnx",
            float_twin="",
            qdq="",
            keep_dtype=None,
            op_types={},
        )
        yield WantedConversion("probe", "", out_dir, files)


def _of_buckets(
    export: ExportRecord, export_dir: Path, *, baseline: bool
) -> Iterator[WantedConversion]:
    islands = frozenset[str]()
    if baseline:
        islands = PrecisionPlan.read(export_dir / "plan.json").island_nodes
    for bucket in export.buckets:
        yield WantedConversion("int8", bucket.name, export_dir, bucket)
        if not baseline:
            continue
        twin = inside(export_dir, bucket.float_twin)
        if not twin.is_file():
            fix = "rerun `quantflow export-onnx`"
            fail("QF401", f"{bucket.float_twin} is missing", where=str(twin), fix=fix)
        keep = keep_dtype(load_model(twin), islands)
        files = bucket.model_copy(
            update={
                "name": f"{bucket.name}_fp16",
                "deploy": bucket.float_twin,
                "keep_dtype": f"keep_dtype_{bucket.name}_fp16.txt" if keep.text else None,
                "customize_dtypes": None,
                "op_types": {},
            }
        )
        yield WantedConversion("fp16", bucket.name, export_dir, files, keep.text, keep.unnamed)


def inside(directory: Path, name: str) -> Path:
    """`name` below `directory`.

    Raises:
        QuantflowError: QF402 where it would leave it.
    """
    path = directory / name
    if not name or not path.resolve().is_relative_to(directory.resolve()):
        fail("QF402", f"{name!r} does not lie in {directory.name}", where="export.json")
    return path


def node_layers(record: ModelRecord | None, model: ir.Model) -> dict[str, str]:
    """Name of the layer that every node of a model belongs to; empty where it is in none.

    Args:
        record: has the layers; None where there is none.
        model: a deploy model or its float twin.
    """
    known = {layer.node: layer.name for layer in record.layers} if record else {}
    biased = {layer.bias_node: layer.name for layer in record.layers} if record else {}
    known = {**{node: name for node, name in biased.items() if node}, **known}
    names = [node.name for node in model.graph.all_nodes() if node.name]
    found = {name: known.get(name, "") for name in names}
    try:
        deployed = deployed_layers(model)
    except QuantflowError:  # preflight says what is wrong with it
        return found
    for layer in deployed:
        own = known.get(layer.product.name or "", layer.product.name or "")
        for node in (layer.product, layer.add, layer.dequant):
            if node is not None and node.name:
                found[node.name] = own
        for entry in layer.inputs:  # layers that read one tensor share its AscendQuant
            name = entry.quant.name or ""
            found[name] = f"{found[name]}, {own}" if found.get(name) else own
    return found
