"""The HTML page of a run: one file, no network, the same bytes for the same artifacts."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from markupsafe import Markup, escape

from quantflow import __version__
from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.run_directory import MANIFEST, RunDirectory
from quantflow.report.artifacts import FOLDERS, PLAN, Artifacts, read_artifacts
from quantflow.report.gates import all_gates, overall
from quantflow.report.headline import about, emulated, facts
from quantflow.report.next_steps import next_steps
from quantflow.report.sections import sections
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
    "diagnosis": "diagnosis",
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
        about=list(about(artifacts)),
        emulated=emulated(artifacts),
        facts=list(facts(artifacts)),
        steps=next_steps(artifacts),
        outdated=artifacts.outdated,
        sections=list(sections(artifacts)),
        open_rows=OPEN_ROWS,
        states=frozenset(STYLES),
        described=_described,
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
    environment.filters["breakable"] = _breakable
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
