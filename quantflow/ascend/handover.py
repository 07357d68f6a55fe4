"""The hand-over folder: everything that converts the models on a machine that has atc.

It holds the models, the files that options name, `conversions.json` with the exact arguments of
atc, and `convert.py` with its parts, which need nothing but Python 3.7.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.digest import file_digest, value_digest
from quantflow.artifacts.model_record import ModelRecord
from quantflow.ascend.handover_plan import FORMAT, PLAN
from quantflow.ascend.option_files import LARGEST_FILE, option_files, travelling_name
from quantflow.ascend.planned import PlannedConversion, WantedConversion, inside, node_layers
from quantflow.config import LoadedConfig
from quantflow.errors import fail
from quantflow.graph.from_onnx import external_files
from quantflow.graph.model_io import load_model
from quantflow.target.parser_renames import parser_suffixes

SCRIPT = "convert.py"
PARTS: Final = (
    *(
        "__init__.py",
        "at_once.py",
        "atc_failure.py",
        "convert_one.py",
        "error_hints.py",
        "error_places.py",
    ),
    *("handover_convert.py", "handover_files.py", "handover_plan.py", "handover_run.py"),
    "handover_told.py",
    *("interrupts.py", "om_check.py", "output_lines.py", "run_atc.py"),
)
"""Modules of this package that `convert.py` is made of."""
PARTS_FOLDER: Final = "convert_parts"
MOST_NODES: Final = 20_000
LONGEST_NAME: Final = 500
"""Of the table of nodes and layers in conversions.json: further nodes are not told."""


def write_handover(
    loaded: LoadedConfig,
    wanted: Sequence[WantedConversion],
    record: ModelRecord | None,
    out_dir: Path,
) -> tuple[list[PlannedConversion], dict[str, str]]:
    """Write the folder.

    Args:
        loaded: the configuration.
        wanted: what is to be converted.
        record: gives the layers that nodes belong to; None where there is none.
        out_dir: the folder; it exists.

    Returns:
        What `convert.py` will run, one by one, and the layer of every node of the models, see
        `node_layers`; nodes of probes are called alike in all of them, and are not told.

    Raises:
        QuantflowError: QF401 when a file of stage 4 is missing, QF402 when its record names a file
            outside its folder.
    """
    placed: dict[str, str] = {}
    for option, path in option_files(loaded).items():
        placed[option] = travelling_name(option, path)
        if path.is_file() and path.stat().st_size <= LARGEST_FILE:  # preflight refuses others
            _copy(path, out_dir / placed[option])
    planned = [_place(loaded, conversion, out_dir, placed) for conversion in wanted]
    layers: dict[str, str] = {}
    models = (conversion.files.deploy for conversion in wanted if conversion.kind != "probe")
    for model in dict.fromkeys(models):
        layers = {**node_layers(record, load_model(out_dir / model)), **layers}
    write_atomically(out_dir / PLAN, _plan_text(loaded, planned, layers).encode())
    package = files("quantflow.ascend")
    write_atomically(out_dir / SCRIPT, package.joinpath("handover_script.py").read_bytes())
    for name in PARTS:
        content = package.joinpath(name).read_bytes()
        write_atomically(out_dir / PARTS_FOLDER / name, content)
    return planned, layers


def _place(
    loaded: LoadedConfig, wanted: WantedConversion, out_dir: Path, placed: dict[str, str]
) -> PlannedConversion:
    inside(out_dir, wanted.name)
    model = inside(wanted.folder, wanted.files.deploy)
    names = [wanted.files.deploy, *(placed.values() if wanted.kind != "probe" else ())]
    _copy(model, out_dir / wanted.files.deploy)
    for data in external_files(model):
        names.append(data.relative_to(wanted.folder).as_posix())
        _copy(data, out_dir / names[-1])
    if wanted.files.keep_dtype is not None:
        names.append(wanted.files.keep_dtype)
        if wanted.keep_dtype_text is None:
            _copy(inside(wanted.folder, names[-1]), out_dir / names[-1])
        else:
            write_atomically(inside(out_dir, names[-1]), wanted.keep_dtype_text.encode())
    arguments = wanted.arguments(loaded)
    there = sorted(name for name in names if (out_dir / name).is_file())
    digests = {name: file_digest(out_dir / name) for name in there}
    chip = loaded.config.target.chip
    return PlannedConversion(
        wanted=wanted,
        arguments=tuple(arguments),
        digests=digests,
        digest=value_digest({"arguments": arguments, "chip": chip, "files": digests}),
    )


def _plan_text(
    loaded: LoadedConfig, planned: Sequence[PlannedConversion], layers: Mapping[str, str]
) -> str:
    names = sorted(name for name in layers if len(name) + len(layers[name]) <= LONGEST_NAME)
    plan = {
        "format": FORMAT,
        "atc": loaded.config.atc.executable,
        "soc_version": loaded.config.target.chip,
        "timeout_s": loaded.config.atc.timeout_s,
        "conversions": [
            {
                "name": x.name,
                "bucket": x.wanted.bucket,
                "kind": x.wanted.kind,
                "arguments": list(x.arguments),
                "files": x.digests,
                "digest": x.digest,
            }
            for x in planned
        ],
        "layers": {name: layers[name] for name in names[:MOST_NODES]},
        "suffixes": sorted(parser_suffixes()),
    }
    return json.dumps(plan, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _copy(source: Path, target: Path) -> None:
    if source == target:  # a probe is written into the folder
        return
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
