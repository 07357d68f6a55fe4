import re

import pytest

from quantflow.artifacts.comparison import LayerError
from quantflow.report.drift_plot import drift_plot
from quantflow.report.plots import MOST_BARS, clipping_plot, sqnr_plot
from quantflow.report.sweep_plots import curve_plot, scores_plot
from tests.report.sample_run import drift, sweep

NAN = float("nan")


def layers(count: int) -> list[LayerError]:
    return [
        LayerError(layer=f"layer.{i}", group="g", sqnr_db=float(i), own_sqnr_db=float(i))
        for i in range(count)
    ]


def test_a_long_model_is_cut_at_the_worst_layers() -> None:
    svg = sqnr_plot(layers(MOST_BARS + 10))
    assert f"layer.{MOST_BARS - 1}<" in svg
    assert f"layer.{MOST_BARS}<" not in svg


def test_the_first_layer_is_on_top() -> None:
    svg = sqnr_plot(layers(3))
    heights = {
        name: float(y)
        for y, name in re.findall(r'y="([\d.]+)"[^>]*>(layer\.\d)<', svg)
        or re.findall(r"translate\([\d.]+ ([\d.]+)\)[^>]*>(layer\.\d)<", svg)
    }
    assert heights["layer.0"] < heights["layer.1"] < heights["layer.2"]


@pytest.mark.parametrize("name", ["$x^{", "a & <b>", "x" * 300])
def test_any_name_can_be_drawn(name: str) -> None:
    layer = LayerError(layer=name, group="g", sqnr_db=float("-inf"), own_sqnr_db=float("nan"))
    assert "<svg" in sqnr_plot([layer])


def test_nothing_to_draw_is_no_error() -> None:
    assert "<svg" in clipping_plot([])
    assert "<svg" in sqnr_plot([])


def test_scores_are_coloured_by_role_and_say_so() -> None:
    svg = scores_plot(sweep())
    assert ">qkv<" in svg and ">classifier<" in svg and ">ffn<" not in svg
    assert "var(--first)" in svg and "var(--fourth)" in svg


def test_the_curve_shows_budget_and_policies() -> None:
    svg = curve_plot(sweep())
    for label in ("budget", "policy none", "policy attention", "policy auto"):
        assert f">{label}" in svg


def test_drift_is_coloured_by_verdict() -> None:
    assert "var(--fail)" in drift_plot(drift("fail"))
    assert "var(--fail)" not in drift_plot(drift("warn"))


def test_broken_outputs_can_be_drawn() -> None:
    broken = {"damage": NAN, "low": NAN, "high": NAN}
    nothing = {"cosine_mean": NAN, "cosine_low": NAN, "cosine_high": NAN}
    found = sweep()
    record = found.model_copy(
        update={
            "scores": tuple(x.model_copy(update=broken) for x in found.scores),
            "curve": tuple(x.model_copy(update=nothing) for x in found.curve),
            "policies": tuple(x.model_copy(update=nothing) for x in found.policies),
        }
    )
    assert "<svg" in scores_plot(record)
    assert "<svg" in curve_plot(record)
