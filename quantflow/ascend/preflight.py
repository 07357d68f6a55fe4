"""Checks before atc starts: it takes minutes to refuse what can be seen in a second."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import onnx_ir as ir

from quantflow.artifacts.export_record import BucketFiles
from quantflow.artifacts.om_record import Finding
from quantflow.ascend.command import input_shape
from quantflow.ascend.environment import ops_findings
from quantflow.ascend.file_findings import file_findings, unmatched_findings
from quantflow.ascend.installed_chip import other_chip_findings
from quantflow.ascend.option_rules import option_findings
from quantflow.ascend.options import option_texts
from quantflow.config import LoadedConfig
from quantflow.errors import QuantflowError, did_you_mean
from quantflow.graph.from_onnx import external_files
from quantflow.graph.model_io import load_model
from quantflow.target.dtype_files import unmatched_lines
from quantflow.target.lint import lint
from quantflow.target.parser_renames import onnx_node

_LEGAL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_LEGAL_PATH: Final = re.compile(r"[A-Za-z0-9_./-]+")
_SHAPE_SYNTAX: Final = frozenset(":;,\"'\\ ")
_SPACE_FACTOR: Final = 4
"""Free disk space wanted, in sizes of the deploy model: its copy, the .om and atc's scratch."""


def common_findings(loaded: LoadedConfig, *, int8: bool) -> Iterator[Finding]:
    """What concerns all buckets: the options, the files they name, and the chip of this machine.

    Args:
        loaded: the configuration.
        int8: whether the models hold INT8 layers.
    """
    config = loaded.config
    options = option_texts(config.atc.options)
    yield from option_findings(options, int8=int8, chip=config.target.chip)
    yield from file_findings(loaded, int8=int8)
    yield from other_chip_findings(config.target.chip, os.environ)
    yield from ops_findings(config.target.chip, os.environ)


def bucket_findings(
    loaded: LoadedConfig, bucket: BucketFiles, export_dir: Path, out_dir: Path
) -> Iterator[Finding]:
    """What concerns one bucket: names, shapes, keep_dtype, disk space and the dialect.

    Args:
        loaded: the configuration.
        bucket: its files, relative to `export_dir`.
        export_dir: where stage 4 wrote.
        out_dir: where the .om goes; it need not exist yet.
    """
    yield from _name_findings(bucket)
    path = export_dir / bucket.deploy
    try:
        model = load_model(path)
    except QuantflowError as error:
        problem = error.problems[0]
        yield _error(bucket, problem.what, bucket.deploy, "rerun `quantflow export-onnx`")
        return
    yield from _shape_findings(bucket, model)
    if bucket.keep_dtype is not None:
        if "keep_dtype" in loaded.config.atc.options:
            what = "keep_dtype is given, and the model has fp32 islands of its own"
            yield _error(bucket, what, "atc.options.keep_dtype", "remove the option")
        yield from _keep_dtype_findings(bucket, model, export_dir / bucket.keep_dtype)
    yield from unmatched_findings(loaded, bucket.name, model)
    yield from _out_node_findings(loaded, bucket, model)
    yield from _space_findings(bucket, path, out_dir)
    for finding in lint(model, loaded.config.target.cann):
        if finding.level == "info":
            continue
        yield Finding(
            level=finding.level,
            what=f"{finding.what} [{finding.rule}]",
            where=f"{bucket.name}: {finding.where}" if finding.where else bucket.name,
            fix=finding.fix,
        )


def is_int8(bucket: BucketFiles) -> bool:
    """Whether the bucket's deploy model holds INT8 layers."""
    return bucket.op_types.get("AscendQuant", 0) > 0


def _name_findings(bucket: BucketFiles) -> Iterator[Finding]:
    if not _LEGAL_NAME.fullmatch(bucket.name):
        what = "atc takes only letters, digits and _ - . in the name of its output"
        yield _error(bucket, what, "--output", "name the free dimensions with those characters")
    for path in filter(None, (bucket.deploy, bucket.keep_dtype)):
        if not _LEGAL_PATH.fullmatch(path):
            what = "atc takes only letters, digits and _ - . / in paths"
            yield _error(bucket, what, path, "name the file with those characters")


def _shape_findings(bucket: BucketFiles, model: ir.Model) -> Iterator[Finding]:
    shapes = {
        str(value.name): tuple(value.shape.dims) if value.shape is not None else ()
        for value in model.graph.inputs
        if not value.is_initializer()
    }
    for name in bucket.input_shapes:
        if not name or _SHAPE_SYNTAX & set(name):
            what = f"--input_shape cannot name the input {name!r} (E10002)"
            yield _error(bucket, what, name, "rename the input")
    if shapes != bucket.input_shapes:
        what = f"--input_shape={input_shape(bucket.input_shapes)} is not what the model has"
        yield _error(bucket, what, bucket.deploy, "rerun `quantflow export-onnx --force`")


def _keep_dtype_findings(bucket: BucketFiles, model: ir.Model, path: Path) -> Iterator[Finding]:
    """A line that matches nothing has no effect, and atc does not say so."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        yield _error(bucket, f"the keep_dtype file cannot be read: {error}", path.name, "rerun")
        return
    for line in unmatched_lines(model, text):
        what = f"{line!r} matches no node after atc's parser, so it would keep nothing in fp32"
        yield _error(bucket, what, path.name, "rerun `quantflow export-onnx --force`")


def _out_node_findings(
    loaded: LoadedConfig, bucket: BucketFiles, model: ir.Model
) -> Iterator[Finding]:
    """Nodes that out_nodes names, before or after the parser, or tensors (E10016)."""
    given = option_texts(loaded.config.atc.options).get("out_nodes", "")
    names = {entry.split(":")[0].strip() for entry in given.split(";")} - {""}
    known = {str(node.name) for node in model.graph}
    known |= {str(value.name) for node in model.graph for value in node.outputs}
    for name in sorted(names - known):
        if onnx_node(name, known) is None:
            what = f"{name!r} is no node and no tensor of the model (E10016)"
            where = f"{bucket.name}: atc.options.out_nodes"
            yield Finding(level="warning", what=what, where=where, fix=did_you_mean(name, known))


def _space_findings(bucket: BucketFiles, path: Path, out_dir: Path) -> Iterator[Finding]:
    size = sum(file.stat().st_size for file in (path, *external_files(path)))
    wanted = _SPACE_FACTOR * size
    place = next(place for place in (out_dir, *out_dir.parents) if place.exists())
    free = shutil.disk_usage(place).free
    if free < wanted:
        what = f"{free / 1e6:.0f} MB are free on disk and about {wanted / 1e6:.0f} MB are needed"
        fix = "free some space, or choose another run.directory"
        yield Finding(level="warning", what=what, where=bucket.name, fix=fix)


def _error(bucket: BucketFiles, what: str, where: str, fix: str) -> Finding:
    return Finding(level="error", what=what, where=f"{bucket.name}: {where}", fix=fix)
