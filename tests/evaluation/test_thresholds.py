"""What is asked of a pair, and what counts as beyond it."""

from __future__ import annotations

import numpy as np
import pytest

from quantflow.artifacts.side_by_side import Point
from quantflow.evaluation.pair_verdict import judge
from quantflow.evaluation.places import Place
from quantflow.evaluation.tally import Tally
from quantflow.evaluation.thresholds import INT8, Thresholds, adjusted, excess, thresholds_for
from quantflow.tasks.criteria import Criterion
from quantflow.tasks.metrics import METRICS


def of(**figures: object) -> Point:
    base: dict[str, object] = {
        "name": "l", "kind": "layer", "tensor": "t", "cosine": 1.0, "cosine_mean": 1.0,
        "cosine_min": 1.0, "max_abs_error": 0.1, "mean_abs_error": 0.1, "relative_error": 0.0,
        "reference_absmax": 100.0,
    }  # fmt: skip
    return Point.model_validate(base | figures)


@pytest.mark.parametrize("pair", [("fp32", "fp16"), ("fp16", "fp16_plain"), ("dump", "dump"),
                                  ("fp32", "float"), ("float", "dump")])  # fmt: skip
def test_what_is_not_int8_is_held_to_fp16(pair: tuple[str, str]) -> None:
    assert thresholds_for(*pair) == Thresholds()  # type: ignore[arg-type]


def test_int8_is_held_to_the_budget_s_cosine() -> None:
    asked = {"cosine": Criterion("cosine", METRICS["cosine"], 0.0045, "budget.cosine_mean is …")}
    found = thresholds_for("fp16", "int8", asked)
    assert found.output_cosine == pytest.approx(0.9955)
    assert (found.source, found.layers_decide) == ("budget.cosine_mean is …", False)
    none = {"cosine": Criterion("cosine", METRICS["cosine"])}
    assert thresholds_for("qdq", "fp32", none) == thresholds_for("dump", "int8") == INT8


def test_a_layer_is_beyond_by_its_angle_or_by_its_length() -> None:
    asked = Thresholds(layer_cosine=0.98)
    assert asked.layer_error == pytest.approx(0.2)
    assert excess(of(cosine=0.981, relative_error=0.19), "layer", asked) == ""
    assert "cosine" in excess(of(cosine=0.979), "layer", asked)
    assert "relative error" in excess(of(relative_error=0.21), "block", asked)
    # Two vectors of equal length with that cosine have that error.
    a, b = np.array([1.0, 0.0]), np.array([0.98, np.sqrt(1 - 0.98**2)])
    assert np.linalg.norm(a - b) == pytest.approx(asked.layer_error)


def test_an_output_is_beyond_by_its_mean_cosine_or_its_largest_error() -> None:
    asked = Thresholds()
    assert excess(of(cosine=0.5), "output", asked) == ""  # the mean of samples is what counts
    assert "mean cosine" in excess(of(cosine_mean=0.9998), "output", asked)
    assert excess(of(max_abs_error=0.5), "output", asked) == ""
    assert "absmax" in excess(of(max_abs_error=0.51), "output", asked)
    assert excess(of(max_abs_error=50.0), "output", INT8) == ""


def test_what_is_not_finite_is_beyond_whatever_else() -> None:
    assert "NaN" in excess(of(nonfinite_apart=1, jitter_max_abs=1e9), "output", INT8)


NAN = float("nan")


@pytest.mark.parametrize("asked", [INT8, Thresholds()])
@pytest.mark.parametrize(
    "figures",
    [
        {"nonfinite_reference": 1, "nonfinite_other": 1},  # an Inf in the same place
        {"nonfinite_reference": 1},
        {"nonfinite_other": 1},
        {"cosine": NAN, "relative_error": NAN, "max_abs_error": 0.0, "jitter_max_abs": 0.0},
        {"cosine_mean": NAN},
        {"jitter_max_abs": NAN},  # a NaN of the second run
    ],
)
def test_an_output_with_inf_on_whichever_side_never_passes(
    asked: Thresholds, figures: dict[str, object]
) -> None:
    point = of(kind="output", **figures)
    point = point.model_copy(update={"beyond": excess(point, "output", asked)})
    assert judge([point], asked)[0] == "fail"


def test_a_layer_s_inf_on_both_sides_passes_unless_there_is_nothing_else() -> None:
    place, pair = Place("l", "layer", "t"), {"masked": [1, -np.inf], "all": [np.inf, np.inf]}
    for name, passes in (("masked", True), ("all", False)):
        tally = Tally()
        tally.add("a", *[np.array(pair[name], np.float32)] * 2)
        point = tally.point(place, (0.0, 0.0))
        point = point.model_copy(update={"beyond": excess(point, "layer", INT8)})
        assert (judge([point], INT8)[0] == "pass") == passes


def test_an_error_within_jitter_is_not_called_beyond() -> None:
    wild = of(cosine=0.5, relative_error=1.0, max_abs_error=0.1)
    assert excess(wild, "layer", Thresholds())
    assert excess(wild.model_copy(update={"jitter_max_abs": 0.1}), "layer", Thresholds()) == ""
    assert excess(wild.model_copy(update={"jitter_max_abs": 0.09}), "layer", Thresholds())


def test_options_take_the_place_of_the_pair_s_own() -> None:
    found = adjusted(INT8, 0.9, None, 0.1)
    assert (found.layer_cosine, found.layers_decide) == (0.9, True)
    assert (found.output_cosine, found.output_error) == (INT8.output_cosine, 0.1)
    assert adjusted(INT8, None, None, None) is INT8


def test_marks_do_not_fail_and_trouble_does() -> None:
    beyond = of(beyond="cosine …")
    verdict, _, marks = judge([beyond, of(kind="output", name="y")], INT8)
    assert verdict == "pass" and marks[0].endswith(": l")
    assert judge([beyond], Thresholds())[0] == "fail"
    assert judge([of(trouble="shapes differ")], INT8)[0] == "fail"
    assert judge([of(beyond="NaN", nonfinite_apart=1)], INT8)[0] == "fail"
    verdict, reasons, _ = judge([beyond] * 8, Thresholds())
    assert verdict == "fail" and len(reasons) == 6 and reasons[-1].startswith("3 more")


def test_a_tally_keeps_the_worst_samples_and_puts_nan_first() -> None:
    tally, rng = Tally(), np.random.default_rng(0)
    a = rng.normal(size=(9, 50)).astype(np.float32)
    noise = rng.normal(size=(9, 50)).astype(np.float32) * np.linspace(0, 1, 9)[:, None]
    b = (a + noise).astype(np.float32)
    b[0, 3] = np.nan
    for i in range(9):
        tally.add(f"s{i}", a[i], b[i])
    found = tally.point(Place("l", "layer", "t"), None)
    cosines = {
        f"s{i}": a[i] @ b[i] / np.linalg.norm(a[i]) / np.linalg.norm(b[i]) for i in range(1, 9)
    }
    assert found.worst_samples == ("s0", *sorted(cosines, key=cosines.__getitem__)[:4])
    assert found.kl is None


def test_probabilities_have_a_divergence_and_logits_where_they_are_said_to_be() -> None:
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(6), size=4).astype(np.float32)
    q = rng.dirichlet(np.ones(6), size=4).astype(np.float32)
    place = Place("p", "output", "p")
    plain, logits, mixed = Tally(), Tally(logits=True), Tally()
    plain.add("a", p, q)
    expected = (p * np.log(p / q)).sum(-1).mean()
    assert plain.point(place, None).kl == pytest.approx(expected, rel=1e-4)
    logits.add("a", np.log(p), np.log(q))
    assert logits.point(place, None).kl == pytest.approx(expected, rel=1e-4)
    mixed.add("a", p, q)
    mixed.add("b", np.log(p), np.log(q))
    assert mixed.point(place, None).kl is None


def test_where_no_output_decides_a_marked_layer_is_no_pass() -> None:
    layer = of(kind="layer", beyond="cosine 0.5, expected 0.98 or more")
    verdict, reasons, _ = judge([layer], INT8)
    assert verdict == "fail" and "--layer-cosine" in reasons[0] and layer.name in reasons[0]
    output = of(kind="output")
    assert judge([layer, output], INT8)[0] == "pass"
    assert judge([of(kind="layer")], INT8)[0] == "pass"
