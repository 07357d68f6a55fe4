"""A page in headless Chromium: what it comes to, what the console says, and how it looks."""

from __future__ import annotations

import base64
import hashlib
import html
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--enable-logging=stderr"),
)
_DARK = "--blink-settings=preferredColorScheme=0"


@dataclass(frozen=True)
class Seen:
    """A page after its scripts have run, and the console's messages."""

    dom: str
    console: list[str]


def open_page(page: Path, width: int = 1200, *, dark: bool = False) -> Seen:
    """Open a page and read what became of it."""
    done = _run(page, "--dump-dom", width, 800, dark=dark)
    assert "<body" in done.stdout, done.stderr
    return Seen(done.stdout, re.findall(r"CONSOLE[^\]]*\] (.*)", done.stderr))


def photograph(page: Path, to: Path, width: int, height: int, *, dark: bool = False) -> None:
    """Write a picture of the top of a page."""
    done = _run(page, f"--screenshot={to}", width, height, dark=dark)
    assert to.exists(), done.stderr


def open_narrow(page: Path, width: int) -> Seen:
    """Open a page in a frame of some width: Chromium's own windows are no narrower than 500.

    Its ``<pre id="seen">`` is copied out of the frame, of which a dump shows the source.
    """
    copy = 'document.body.append(this.contentDocument.getElementById("seen"))'
    source = html.escape(page.read_text(encoding="utf-8"))
    style = f"width:{width}px;height:800px;border:0"
    frame = f"<iframe style='{style}' onload='{copy}' srcdoc=\"{source}\">"
    host = page.with_name("host.html")
    host.write_text(f"<!doctype html><meta charset=utf-8><body>{frame}</iframe>", encoding="utf-8")
    return open_page(host)


def _run(
    page: Path, what: str, width: int, height: int, *, dark: bool
) -> subprocess.CompletedProcess[str]:
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory() as profile:
        flags = [*_FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        command = [CHROMIUM, *flags, *([_DARK] if dark else []), what, page.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def with_script(page: Path, to: Path, script: str, content: str = "") -> Path:
    """A copy of a page with more content and a script at its end, which its policy allows."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = page.read_text(encoding="utf-8")
    text = text.replace("script-src '", f"script-src 'sha256-{digest}' '", 1)
    text = text.replace("</body>", f"{content}<script>{script}</script></body>")
    to.write_text(text, encoding="utf-8")
    return to
