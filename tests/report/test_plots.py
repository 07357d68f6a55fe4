import re

import pytest

from quantflow.artifacts.comparison import LayerError
from quantflow.report.plots import MOST_BARS, clipping_plot, sqnr_plot


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
