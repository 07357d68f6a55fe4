"""The work of stage 5: an .om file, or everything that is needed to make one."""

from __future__ import annotations

from pathlib import Path

from quantflow.artifacts.export_record import ExportRecord
from quantflow.ascend.convert import convert
from quantflow.stages.stage import Context


def work(context: Context, folder: Path) -> None:
    """Write `om.json`, and the .om files or the hand-over directory."""
    export_dir = context.folder("40_onnx")
    record = ExportRecord.read(export_dir / "export.json")
    convert(context.loaded, record, export_dir, folder, context.progress).write(folder / "om.json")
