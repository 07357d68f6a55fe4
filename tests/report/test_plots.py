import re

import numpy as np
import pytest
from numpy.typing import NDArray

from quantflow.artifacts.comparison import LayerError
from quantflow.artifacts.ranges_record import TensorRange
from quantflow.ranges.bounds import Bounds
from quantflow.ranges.clipping import Subject, clipping_rows
from quantflow.ranges.grid import observe
from quantflow.ranges.minmax import minmax
from quantflow.report.drift_plot import drift_plot
from quantflow.report.histogram_plot import histogram_plot
from quantflow.report.plots import MOST_BARS, clipping_plot, sqnr_plot
from quantflow.report.sweep_plots import scores_plot
from quantflow.report.tensor_story import TensorStory
from tests.report.sample_run import drift, perplexity_sweep, sweep

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


def test_drift_is_coloured_by_verdict() -> None:
    assert "var(--fail)" in drift_plot(drift("fail"))
    assert "var(--fail)" not in drift_plot(drift("warn"))


@pytest.mark.parametrize("number", [NAN, float("inf")])
def test_scores_of_broken_outputs_can_be_drawn(number: float) -> None:
    broken = {"value": number, "damage": number, "low": NAN, "high": number}
    for found in (sweep(), perplexity_sweep()):
        scores = tuple(
            x.model_copy(
                update={
                    "one_in": x.one_in.model_copy(update=broken),
                    "one_out": x.one_out.model_copy(update=broken),
                }
            )
            for x in found.scores
        )
        assert "<svg" in scores_plot(found.model_copy(update={"scores": scores[:1]}))
        mixed = (scores[0], *found.scores[1:])
        assert "<svg" in scores_plot(found.model_copy(update={"scores": mixed}))


def test_scores_say_what_their_length_is() -> None:
    assert "rise of the perplexity, %, alone in INT8" in scores_plot(perplexity_sweep())
    assert "among others in INT8" in scores_plot(sweep())


def story(values: NDArray[np.float32]) -> TensorStory:
    """A tensor whose candidates are minmax and kl, which is in force."""
    hist = observe(values)
    candidates = {"minmax": minmax(hist, symmetric=False), "kl": Bounds(-0.5, 0.5)}
    ends = (np.array([hist.low]), np.array([hist.high]))
    subject = Subject("t $x^{", "g", "calibration", False, ["a"], *ends)
    return TensorStory(
        chosen=TensorRange(tensor="t $x^{", low=-0.5, high=0.5, estimator="kl", symmetric=False),
        readers=(),
        rows=tuple(clipping_rows(hist, candidates, "kl", subject)),
        histograms={"calibration": hist, "heldout": hist},
        channel_absmax={},
    )


def test_a_histogram_shows_the_bounds_and_says_which_are_in_force() -> None:
    values = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    svg = histogram_plot(story(values), "one")
    for text in ("minmax", "kl, in force", "calibration", "held-out", "value of t $x^{"):
        assert f">{text}<" in svg
    assert svg == histogram_plot(story(values), "one")


@pytest.mark.parametrize("value", [0.0, 3.0, -1e30, 1e-40])
def test_values_that_are_all_one_can_be_drawn(value: float) -> None:
    assert "<svg" in histogram_plot(story(np.full(5, value, np.float32)), "one")
    assert "<svg" in histogram_plot(story(np.zeros(0, np.float32)), "none")
