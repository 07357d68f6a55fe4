import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from quantflow.artifacts.comparison import LayerError
from quantflow.artifacts.ranges_record import NonFinite
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.report.html import report_is_fresh, write_report
from tests.report.sample_run import (
    comparison,
    coverage,
    drift,
    edit_plan,
    om,
    ranges,
    sweep,
    write_run,
)

VOID = {"meta", "br", "path", "use", "rect", "link", "hr", "wbr"}


class Outline(HTMLParser):
    """Checks nesting and collects ids and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href"):
                self.addresses.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture
def page(tmp_path: Path) -> str:
    run = write_run(tmp_path)
    write_report(run, tmp_path / "report.html")
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_report(write_run(tmp_path / name), tmp_path / name / "report.html")
    pages = [(tmp_path / name / "report.html").read_bytes() for name in ("a", "b")]
    assert pages[0] == pages[1]


def test_the_page_is_well_formed_with_unique_ids_and_no_network(page: str) -> None:
    outline = Outline()
    outline.feed(page)
    assert outline.open == []
    assert len(outline.ids) == len(set(outline.ids))
    assert all(address.startswith("#") for address in outline.addresses)
    assert {address[1:] for address in outline.addresses} <= set(outline.ids)
    assert "default-src 'none'" in page


def test_the_page_leads_with_verdict_figures_and_next_step(page: str) -> None:
    head = page[page.index("<header>") : page.index("</header>")]
    assert "v-pass" in head
    for text in ("0.994600", "0.9999991", "44.4%", "not-converted", "convert.py"):
        assert text in head


def test_the_page_says_what_it_is_about_and_that_its_figures_are_emulated(page: str) -> None:
    head = page[page.index("<header>") : page.index("</header>")]
    for text in ("mine:build", "Ascend310P3", "bucket batch=1", "3 evaluation samples"):
        assert text in head
    assert "emulated on a CPU; nothing was converted or timed on an NPU" in head
    assert "int8 cosine to fp32, emulated" in head and "fp16 cosine to fp32, emulated" in head


def test_a_converted_model_is_not_said_to_be_unconverted(tmp_path: Path) -> None:
    run = write_run(tmp_path, om_record=om("converted"))
    write_report(run, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "nothing was converted" not in text and "or timed on an NPU" in text


def test_long_names_break_after_dots_only(tmp_path: Path) -> None:
    name = "encoder.layer.0.attention.output.dense_with_a_long_name"
    layer = LayerError(layer=name, group="g", sqnr_db=9.5, own_sqnr_db=10.25)
    record = comparison().model_copy(update={"layers": (layer,)})
    write_report(write_run(tmp_path, comparison_record=record), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    broken = "encoder.<wbr>layer.0.<wbr>attention.<wbr>output.<wbr>dense_with_a_long_name"
    assert f'<td class="t long">{broken}</td>' in text
    assert '<td class="n">9.5</td>' in text


def test_names_that_are_not_long_stay_on_one_line(page: str) -> None:
    assert '<td class="t">block.query</td>' in page


def test_plots_take_their_colours_from_the_page(page: str) -> None:
    svg = "".join(re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL))
    assert svg.count("<svg") == 8  # map, error, curve, scores, drift, clipping, two histograms
    assert set(re.findall(r"#[0-9a-f]{6}\b", svg)) <= {"#000000", "#ffffff"}
    defined = set(re.findall(r"--(\w+):", page))
    assert {"first", "second", "pass", "fail", "ink"} <= set(re.findall(r"var\(--(\w+)\)", svg))
    assert set(re.findall(r"var\(--(\w+)\)", page)) <= defined
    assert "prefers-color-scheme: dark" in page


def test_the_page_tells_of_the_set_the_ranges_and_the_plan(tmp_path: Path) -> None:
    run = write_run(
        tmp_path,
        drift_report=drift("fail"),
        coverage_report=coverage("fail"),
        sweep_record=sweep(verified=False),
    )
    write_report(run, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    for anchor in ("drift", "coverage", "sensitivity", "curve", "plan"):
        assert f'id="{anchor}"' in text
    head = text[: text.index("</header>")]
    for reason in ("text.length differs", "head: 50%", "no plan meets the budget"):
        assert reason in head


def test_a_run_without_a_search_has_no_empty_plots(tmp_path: Path) -> None:
    record = sweep().model_copy(update={"policy": "none", "scores": (), "curve": ()})
    run = write_run(tmp_path, sweep_record=record)
    write_report(run, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'id="curve"' in text and 'id="sensitivity"' not in text


def test_names_from_the_model_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    evil = '<script>alert("$x^{")</script>'
    layer = LayerError(
        layer=evil,
        group=evil,
        sqnr_db=float("inf"),
        own_sqnr_db=float("nan"),
        sample_sqnr_db=(float("-inf"),),
    )
    record = comparison().model_copy(update={"layers": (layer,), "layer_samples": (evil,)})
    run = write_run(tmp_path, comparison_record=record)
    write_report(run, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert evil not in text
    assert text.count("<script") == text.count("</script") == 1  # the page's own
    assert "&lt;script&gt;" in text[text.index('id="heat"') :]


def test_the_page_s_policy_names_its_one_script_and_nothing_of_the_network(page: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)
    assert policy and script
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert policy[1].split("; ") == [
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        f"script-src 'sha256-{digest}'",
    ]
    assert set(re.findall(r"https?://[\w.]+", page)) <= {"http://www.w3.org"}  # names of SVG


def test_without_a_script_every_row_is_there_to_read(tmp_path: Path) -> None:
    layers = tuple(
        LayerError(layer=f"layer.{i}", group="g", sqnr_db=1.0, own_sqnr_db=1.0) for i in range(50)
    )
    record = comparison().model_copy(update={"layers": layers})
    write_report(write_run(tmp_path, comparison_record=record), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    body = text[text.index("<body>") :]
    assert all(f">layer.{i}</td>" in body for i in range(50))
    assert not re.search(r'hidden|class="beyond|<button|<input', body)


def test_a_long_run_s_page_stays_under_a_megabyte(tmp_path: Path) -> None:
    # The worst case of the map: no two cells side by side are of one colour.
    layers = tuple(
        LayerError(
            layer=f"bert.encoder.layer.{i}.attention.output.dense",
            group=f"bert.encoder.layer.{i}.attention.output.dense",
            sqnr_db=20.0,
            own_sqnr_db=20.0,
            sample_sqnr_db=tuple(12.0 + 10 * (k % 2) + i % 5 for k in range(16)),
        )
        for i in range(200)
    )
    names = tuple(f"evaluation[{k}]" for k in range(16))
    record = comparison().model_copy(update={"layers": layers, "layer_samples": names})
    write_report(write_run(tmp_path, comparison_record=record), tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size < 1e6


def test_the_page_ends_with_what_the_run_was_made_with(page: str) -> None:
    end = page[page.index('<section id="provenance"') :]
    for text in ("3.11.9", "CPUExecutionProvider", "budget.cosine_mean", "0.98", "45_compare"):
        assert text in end
    assert "task_drop" not in end  # not set


def _luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb`` by WCAG 2.2."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(page: str, scheme: str) -> None:
    blocks = re.findall(r":root \{(.*?)\}", page[page.index("<style>") :], flags=re.DOTALL)
    colours = dict(re.findall(r"--(\w+): (#\w{6})", blocks[["light", "dark"].index(scheme)]))
    for behind in ("paper", "panel"):
        for text in ("ink", "soft", "first", "pass", "warn", "fail"):
            bright, dim = sorted((_luminance(colours[x]) for x in (behind, text)), reverse=True)
            assert (bright + 0.05) / (dim + 0.05) >= 4.5, (behind, text)


def test_a_run_that_stopped_at_a_gate_has_a_page_that_says_why(tmp_path: Path) -> None:
    nan = NonFinite(tensor="h", split="calibration", nan=2, inf=0, samples=("calibration[1]",))
    full = write_run(tmp_path, ranges_record=ranges(nan))
    for folder in ("40_onnx", "45_compare", "50_om"):
        full.folder(folder).rename(tmp_path / f"gone_{folder}")
    write_report(full, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "v-fail" in text and "h: 2 NaN" in text
    assert 'id="precision"' not in text


def test_an_empty_run_directory_has_a_page(tmp_path: Path) -> None:
    write_report(RunDirectory(tmp_path), tmp_path / "report.html")
    assert "unfinished" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_page_is_fresh_until_a_stage_is_written_again(tmp_path: Path) -> None:
    run, path = write_run(tmp_path), tmp_path / "report.html"
    assert not report_is_fresh(run, path)
    write_report(run, path)
    assert report_is_fresh(run, path)
    write_run(tmp_path)
    assert not report_is_fresh(run, path)
    write_report(run, path)
    edit_plan(run)
    assert not report_is_fresh(run, path)
