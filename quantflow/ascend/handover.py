"""The hand-over folder: everything that converts the model on a machine that has atc.

It holds the deploy models, the files that options name, `conversions.json` with the exact arguments
of atc, and `convert.py`, a copy of `handover_script`, which needs nothing but Python 3.7.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.export_record import BucketFiles, ExportRecord
from quantflow.ascend.command import atc_arguments
from quantflow.ascend.error_hints import HINTS
from quantflow.ascend.option_files import option_files, travelling_name
from quantflow.config import LoadedConfig
from quantflow.errors import fail
from quantflow.graph.from_onnx import external_files

SCRIPT = "convert.py"
PLAN = "conversions.json"


@dataclass(frozen=True, slots=True)
class PlannedConversion:
    """One bucket's conversion, ready to run in the hand-over folder.

    Attributes:
        bucket: its name, which is also the .om file's name without suffix.
        arguments: of atc; paths are relative to the folder.
    """

    bucket: str
    arguments: tuple[str, ...]


def write_handover(
    loaded: LoadedConfig, export: ExportRecord, export_dir: Path, out_dir: Path
) -> list[PlannedConversion]:
    """Write the folder and return what `convert.py` will run, bucket by bucket.

    Args:
        loaded: the configuration.
        export: what stage 4 wrote.
        export_dir: where it wrote it.
        out_dir: the folder; it exists.

    Raises:
        QuantflowError: QF401 when a file of stage 4 is missing, QF402 when its record names a file
            outside its folder.
    """
    placed: dict[str, str] = {}
    for option, path in option_files(loaded).items():
        placed[option] = travelling_name(option, path)
        if path.is_file():  # preflight reports one that is not
            _copy(path, out_dir / placed[option])
    planned = [
        _place_bucket(loaded, bucket, export_dir, out_dir, placed) for bucket in export.buckets
    ]
    write_atomically(out_dir / PLAN, _plan_text(loaded, planned).encode())
    script = files("quantflow.ascend").joinpath("handover_script.py").read_bytes()
    write_atomically(out_dir / SCRIPT, script)
    return planned


def _place_bucket(
    loaded: LoadedConfig,
    bucket: BucketFiles,
    export_dir: Path,
    out_dir: Path,
    placed: dict[str, str],
) -> PlannedConversion:
    _inside(out_dir, bucket.name)
    deploy = _inside(export_dir, bucket.deploy)
    _copy(deploy, out_dir / bucket.deploy)
    for data in external_files(deploy):
        _copy(data, out_dir / data.relative_to(export_dir))
    if bucket.keep_dtype is not None:
        _copy(_inside(export_dir, bucket.keep_dtype), out_dir / bucket.keep_dtype)
    arguments = atc_arguments(
        loaded.config,
        bucket,
        model_path=bucket.deploy,
        output=bucket.name,
        keep_dtype=bucket.keep_dtype,
        option_files=placed,
    )
    return PlannedConversion(bucket.name, tuple(arguments))


def _plan_text(loaded: LoadedConfig, planned: list[PlannedConversion]) -> str:
    plan = {
        "atc": loaded.config.atc.executable,
        "soc_version": loaded.config.target.chip,
        "timeout_s": loaded.config.atc.timeout_s,
        "conversions": [
            {"bucket": entry.bucket, "arguments": list(entry.arguments)} for entry in planned
        ],
        "hints": {code: f"{hint.cause} ({hint.fix})" for code, hint in HINTS.items()},
    }
    return json.dumps(plan, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _inside(directory: Path, name: str) -> Path:
    """`name` below `directory`, refused where it would leave it."""
    path = directory / name
    if not name or not path.resolve().is_relative_to(directory.resolve()):
        fail("QF402", f"{name!r} does not lie in {directory.name}", where="export.json")
    return path


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(source, target)
    except FileNotFoundError:
        fail(
            "QF401",
            f"{source.name} is missing",
            where=str(source),
            fix="rerun `quantflow export-onnx`",
        )
