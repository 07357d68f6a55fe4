"""The page in Chromium: it sorts, filters, fits a phone, turns dark, and says nothing amiss."""

from __future__ import annotations

import html
import json
import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from quantflow.artifacts.comparison import LayerError
from quantflow.report.html import write_report
from tests.report.browser import CHROMIUM, Seen, open_narrow, open_page, photograph, with_script
from tests.report.sample_run import comparison, write_run

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium"
)

PROBE = Path(__file__).with_name("probe.js").read_text(encoding="utf-8")
HOSTILE = '<script>document.title = "taken"</script>'
LAYERS = 40

COLUMNS: dict[str, list[str]] = {
    "share": ["-3.2%", ">-0.01%", "0.00%", "<0.01%", "5.00%", "44.4%", ">99.99%", "100.00%", "-"],
    "number": ["-2", "0", "1e-05", "0.5", "9", "12.5", "1,234", "inf", "nan"],
    "interval": [
        *("-0.1 to 0.2", "0.01 to 0.04", "0.01 to 0.3", "0.9 to 0.95", "1 to 2", "2 to 10"),
        *("10 to 11", "1,000 to 2,000", ""),
    ],
    "time": ["3 us", "1.5 ms", "20 ms", "0.5 s", "2 s", "1 min", "1.5 min", "1 h", "-"],
    "size": ["900", "1 KiB", "1.5 KiB", "1 MB", "1,000 KiB", "1 MiB", "2 MiB", "1 GiB", "-"],
    "rank": ["1=", "2=", "3", "4=", "9", "10", "11=", "20", "100"],
    "name": ["a.1", "a.2", "a.10", "b.1.x", "b.1.y", "b.20", "c", "d", "-"],
    "verdict": ["fail", "fail", "warn", "warn", "warn", "pass", "pass", "pass", "-"],
}
"""Cells of a column in ascending order; those without a figure last, whatever the direction."""
EMPTY = {"-", "nan", ""}


def shuffled() -> dict[str, list[str]]:
    order = np.random.default_rng(3).permutation(9)
    return {name: [cells[i] for i in order] for name, cells in COLUMNS.items()}


def sorting_table() -> str:
    """A table of these columns in disorder, which the page's script gets to see as its own."""
    cells = shuffled()
    heads = "".join(f'<th class="{_side(name)}">{name}</th>' for name in cells)
    rows = "".join(
        f"<tr>{''.join(f'<td>{html.escape(x)}</td>' for x in row)}</tr>"
        for row in zip(*cells.values(), strict=True)
    )
    table = f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody>"
    named = '<table id="sorting" data-open="15" aria-label="x">'
    return f'<div class="scroll">{named}{table}</table></div>'


def _side(name: str) -> str:
    return "t" if name in ("name", "verdict") else "n"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with 40 layers, one of them with a hostile name."""
    directory = tmp_path_factory.mktemp("page")
    layers = [
        LayerError(
            layer=HOSTILE if i == LAYERS - 1 else f"layer.{i}",
            group="g",
            sqnr_db=float(i),
            own_sqnr_db=float(i),
            sample_sqnr_db=(float(i), i + 3.0, math.nan),
        )
        for i in range(LAYERS)
    ]
    record = comparison().model_copy(update={"layers": tuple(layers)})
    path = directory / "report.html"
    write_report(write_run(directory / "run", comparison_record=record), path)
    return path


@pytest.fixture(scope="module")
def probed(page: Path) -> Path:
    return with_script(page, page.with_name("probed.html"), PROBE, sorting_table())


@pytest.fixture(scope="module")
def phone(probed: Path) -> dict[str, Any]:
    """What the probe saw in a window as wide as a phone."""
    return _seen(open_narrow(probed, 390))


def _seen(opened: Seen) -> dict[str, Any]:
    found = re.search(r'<pre id="seen">(.*?)</pre>', opened.dom, re.DOTALL)
    assert found and opened.console == []
    return json.loads(html.unescape(found[1]))


def test_the_console_stays_silent_and_the_script_has_run(page: Path) -> None:
    opened = open_page(page)
    assert opened.console == []
    assert '<html lang="en" class="js">' in opened.dom
    assert 'class="sort"' in opened.dom
    assert "<title>quantflow report: pass</title>" in opened.dom


def test_no_other_script_can_run_in_the_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("</body>", f"{HOSTILE}</body>")
    attacked = page.with_name("attacked.html")
    attacked.write_text(text, encoding="utf-8")
    opened = open_page(attacked)
    assert any("Content Security Policy" in message for message in opened.console)
    assert "<title>quantflow report: pass</title>" in opened.dom


def test_every_section_is_there_under_headings_in_order(phone: dict[str, Any]) -> None:
    assert phone["sections"] == [
        *("Gates", "Calibration set against deployment", "Hygiene of the samples", "Samples"),
        *("Range coverage", "Clipping", "Histograms of the worst tensors", "Ranges"),
        *("fp16 safety", "Optimization", "Sensitivity", "Accuracy against INT8 share"),
        *("Precision plan", "Where the error arises", "Errors by layer and sample"),
        *("Accuracy: fp32, fp16 and int8", "Deploy model", "Parity", "OM conversion", "Model"),
        "Provenance",
    ]
    levels = phone["levels"]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert phone["unnamed"] == 0


def test_nothing_is_wider_than_a_phone(phone: dict[str, Any]) -> None:
    assert phone["window"] == 390
    assert phone["width"] == 390


@pytest.mark.parametrize("name", COLUMNS)
def test_a_click_sorts_one_more_turns_and_a_third_restores(
    phone: dict[str, Any], name: str
) -> None:
    (found,) = (x for x in phone["sorts"] if x["name"] == name)
    ascending = COLUMNS[name]
    full = [x for x in ascending if x not in EMPTY]
    descending = [*reversed(full), *(x for x in ascending if x in EMPTY)]
    assert found["focused"]
    assert found["seen"] == [
        ["ascending", ascending],
        ["descending", descending],
        ["none", shuffled()[name]],
    ]


def test_a_long_table_shows_its_first_rows_and_all_that_a_filter_asks_for(
    phone: dict[str, Any],
) -> None:
    rows = LAYERS + 1  # the head, which is fp16
    first = [15, f"{rows} rows", f"Show all {rows} rows"]
    everything = [rows, f"{rows} rows", "Show the first 15 rows"]
    assert phone["counts"] == [
        first,
        everything,
        [1, f"1 of {rows} rows", ""],
        [0, f"0 of {rows} rows", ""],
        everything,
        first,
    ]
    assert phone["worst"] == HOSTILE  # sorted by the own SQNR, greatest first


def test_the_page_turns_dark_with_the_reader_s_choice(phone: dict[str, Any], probed: Path) -> None:
    dark = _seen(open_page(probed, dark=True))
    for seen, brighter in ((phone, "paper"), (dark, "ink")):
        bright, dim = (sum(map(int, re.findall(r"\d+", seen[x]))) for x in ("paper", "ink"))
        assert (bright > dim) == (brighter == "paper")
    assert dark["heat"] != phone["heat"]
    assert dark["width"] == 1200


def test_the_page_can_be_looked_at(page: Path, tmp_path: Path) -> None:
    photograph(page, tmp_path / "page.png", 1200, 1600)
    with Image.open(tmp_path / "page.png") as picture:
        pixels = np.asarray(picture.convert("RGB"), dtype=np.int64)
    assert pixels.shape == (1600, 1200, 3)
    paper = (pixels == 255).all(axis=2)
    assert 0.5 < paper.mean() < 0.97
    # Written on from top to bottom, and the verdict's green is among the colours.
    assert all((~band).any() for band in np.split(paper, 8))
    green = (pixels == [0x18, 0x70, 0x3D]).all(axis=2)
    assert green.sum() > 50
