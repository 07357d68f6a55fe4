"""Stage 5: from the deploy model to an .om file, or everything that is needed to make one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from quantflow.artifacts.digest import file_digest
from quantflow.ascend.environment import find_atc
from quantflow.ascend.option_files import option_files
from quantflow.runtime.onnxruntime_build import build_identity
from quantflow.stages.stage import Context, Stage, section_digest

SOURCES = ("00_model", "10_set", "40_onnx")
"""What the comparison reads, too."""


def inputs(context: Context) -> dict[str, str]:
    """Target, runtime and atc sections, what the stages hold, option files, which atc there is."""
    digests = {
        "target": section_digest(context.config.target),
        "atc": section_digest(context.config.atc.model_copy(update={"parallel": 1})),
        "atc found at": str(find_atc(context.loaded) or "nowhere"),
        "runtime": section_digest(context.config.runtime),
        "onnxruntime": build_identity(),
        "00_model": context.digest_of("00_model"),
        "10_set": context.digest_of("10_set"),
        "40_onnx": context.digest_of("40_onnx"),
        "45_compare": comparison_digest(context),
    }
    for option, path in option_files(context.loaded).items():
        # Preflight says what is wrong with one that is missing.
        digests[f"atc.options.{option}"] = file_digest(path) if path.is_file() else "no file"
    return digests


def comparison_digest(context: Context) -> str:
    """Digest of the comparison, empty when there is none of the files that are exported now.

    A conversion does not wait for one: it may have been made in between.
    """
    manifest = context.run.manifest("45_compare")
    if manifest is None:
        return ""
    fits = all(manifest.inputs.get(name) == context.digest_of(name) for name in SOURCES)
    return manifest.digest if fits else ""


def work(context: Context, folder: Path) -> None:
    """Write the hand-over folder with samples and `README.txt`, `om.json`, and any .om files."""
    from quantflow.stages import work_5_om

    work_5_om.work(context, folder)


def collecting(directory: Path) -> Stage:
    """The stage, done by taking back what `convert.py` made of its folder on another machine.

    What comes of it is as current as what atc makes here: it has the same inputs.

    Args:
        directory: where convert.py ran.
    """

    def collect(context: Context, folder: Path) -> None:
        from quantflow.stages import work_5_om

        work_5_om.collect(context, folder, directory)

    return replace(STAGE, work=collect)


STAGE = Stage(
    folder="50_om",
    title="OM conversion",
    command="quantflow export-om",
    reads=SOURCES,
    inputs=inputs,
    work=work,
)
