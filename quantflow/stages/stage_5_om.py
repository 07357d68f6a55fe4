"""Stage 5: from the deploy model to an .om file, or everything that is needed to make one."""

from __future__ import annotations

from pathlib import Path

from quantflow.artifacts.digest import file_digest
from quantflow.ascend.environment import find_atc
from quantflow.ascend.option_files import option_files
from quantflow.stages.stage import Context, Stage, section_digest


def inputs(context: Context) -> dict[str, str]:
    """Target and atc sections, the exported files, option files, and which atc there is."""
    digests = {
        "target": section_digest(context.config.target),
        "atc": section_digest(context.config.atc),
        "atc found at": str(find_atc(context.loaded) or "nowhere"),
        "40_onnx": context.digest_of("40_onnx"),
    }
    for option, path in option_files(context.loaded).items():
        digests[f"atc.options.{option}"] = file_digest(path)
    return digests


def work(context: Context, folder: Path) -> None:
    """Write `om.json`, and the .om files or the hand-over directory."""
    from quantflow.stages import work_5_om

    work_5_om.work(context, folder)


STAGE = Stage(
    folder="50_om",
    title="OM conversion",
    command="quantflow export-om",
    reads=("40_onnx",),
    inputs=inputs,
    work=work,
)
