"""The HTML page of a run: one file, no network, the same bytes for the same artifacts."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from markupsafe import Markup, escape

from quantflow import __version__
from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.run_directory import MANIFEST, RunDirectory
from quantflow.report.artifacts import FOLDERS, PLAN, Artifacts, read_artifacts
from quantflow.report.comparison_sheets import has_int8
from quantflow.report.gates import all_gates, overall
from quantflow.report.next_steps import next_steps
from quantflow.report.sections import sections
from quantflow.report.sheet import cosine_text, count_text, dims_text, score_text, share_text
from quantflow.report.tables import STYLES
from quantflow.report.verdict_line import verdict_line

if TYPE_CHECKING:
    from jinja2 import Template

GATE_ANCHORS: Final = {
    "drift": "drift",
    "hygiene": "hygiene",
    "finite values": "ranges",
    "coverage": "coverage",
    "plan": "plan",
    "parity": "parity",
    "accuracy": "precision",
}
"""Section that a gate is about."""

OPEN_ROWS = 15
"""Rows of a table that show at once; the others unfold."""


def write_report(run: RunDirectory, path: Path) -> None:
    """Write the page of a run.

    Args:
        run: whose artifacts are read; stages that have not run are left out.
        path: the file to write.

    Raises:
        QuantflowError: QF402 when an artifact does not hold its record.
    """
    write_atomically(path, render(read_artifacts(run)).encode())


def report_is_fresh(run: RunDirectory, path: Path) -> bool:
    """Whether the page was written after every stage that is there, and edits of the plan."""
    files = [*(run.folder(folder) / MANIFEST for folder in FOLDERS), run.folder("30_sweep") / PLAN]
    times = [file.stat().st_mtime_ns for file in files if file.exists()]
    return path.exists() and path.stat().st_mtime_ns > max(times, default=0)


def render(artifacts: Artifacts) -> str:
    """The page as text."""
    gates = all_gates(artifacts)
    style, script = (_part(name) for name in ("page.css", "page.js"))
    return _template().render(
        version=__version__,
        style=style,
        script=script,
        script_digest=_source_digest(script),
        verdict=overall(gates) if gates else "unfinished",
        line=verdict_line(artifacts),
        gates=gates,
        gate_anchors=GATE_ANCHORS,
        reasons=[(gate, reason) for gate in gates for reason in gate.reasons],
        about=list(_about(artifacts)),
        emulated=_emulated(artifacts),
        facts=list(_facts(artifacts)),
        steps=next_steps(artifacts),
        outdated=artifacts.outdated,
        sections=list(sections(artifacts)),
        open_rows=OPEN_ROWS,
        states=frozenset(STYLES),
    )


def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("quantflow.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"breakable": _breakable, "described": _described}
    return environment.get_template("page.html.j2")


def _part(name: str) -> Markup:
    """A file of the page that is put into it as it is."""
    return Markup(files("quantflow.report").joinpath(name).read_text(encoding="utf-8"))


def _source_digest(script: str) -> str:
    """What the page's security policy calls its one script, so that no other one can run."""
    return f"sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def _described(svg: str, text: str) -> Markup:
    """Figures with a description for those who do not see them."""
    return Markup(svg.replace('<svg role="img"', f'<svg role="img" aria-label="{escape(text)}"'))


def _breakable(text: str) -> Markup:
    """Text that may be broken after the dots and slashes of names, and nowhere else in them."""
    return Markup("<wbr>").join(re.split(r"(?<=[./])(?=[A-Za-z_])", text))


def _about(artifacts: Artifacts) -> Iterator[str]:
    """What the page is about: model, chip, bucket, samples."""
    if artifacts.model is not None and artifacts.model.origin:
        yield f"model {artifacts.model.origin}"
    if artifacts.export is not None:
        yield from filter(None, [artifacts.export.chip])
        yield f"bucket {dims_text(artifacts.export.buckets[0].dims)}"
    if artifacts.comparison is not None:
        yield f"{count_text(artifacts.comparison.samples)} evaluation samples"


def _emulated(artifacts: Artifacts) -> str:
    """Where the figures come from, so that nobody takes them for an NPU's."""
    if artifacts.comparison is None:
        return ""
    converted = artifacts.om is not None and artifacts.om.status == "converted"
    what = "the .om was not run" if converted else "nothing was converted"
    return f"int8 and fp16 figures are emulated on a CPU; {what} or timed on an NPU"


def _facts(artifacts: Artifacts) -> Iterator[tuple[str, str, str]]:
    """Label, figure and remark of the figures at the top."""
    comparison = artifacts.comparison
    int8 = "int8" if has_int8(artifacts.export) else "deploy model (no layer INT8)"
    for key, name in (("int8", int8), ("fp16", "fp16")):
        fidelity = comparison.fidelity.get(key) if comparison else None
        if fidelity is not None:
            remark = f"least {cosine_text(fidelity.cosine_min)}"
            yield f"{name} cosine to fp32, emulated", cosine_text(fidelity.cosine_mean), remark
    if comparison is not None and comparison.task:
        scores = comparison.task
        fp16 = f"fp16 {score_text(scores['fp16'].value)}" if "fp16" in scores else ""
        if "int8" in scores:
            figure = score_text(scores["int8"].value)
            yield f"{int8} {comparison.task_metric}, emulated", figure, fp16
    if artifacts.export is not None:
        share = share_text(artifacts.export.int8_mac_fraction, 1)
        yield "MACs in INT8", share, f"{artifacts.export.boundaries} quant and dequant nodes"
    if artifacts.plan is not None:
        groups = f"{len(artifacts.plan.fp16_groups)} of {len(artifacts.plan.groups)} groups in fp16"
        yield "precision plan", artifacts.plan.policy, groups
    if artifacts.parity is not None:
        yield "parity", cosine_text(artifacts.parity.cosine_min), "least cosine of any layer"
    if artifacts.om is not None:
        yield "OM", artifacts.om.status, f"{len(artifacts.om.conversions)} bucket(s)"
