import re

import pytest

from quantflow.artifacts.sweep_record import CurvePoint
from quantflow.report.curve_plot import curve_plot, measured_by, walks
from tests.report.sample_run import cosine_measure, perplexity_measure, perplexity_sweep, sweep

NAN = float("nan")


def point(groups: str, step: str = "curve", mean: float = 0.99) -> CurvePoint:
    """A plan whose fp16 groups are the letters."""
    return CurvePoint(
        fp16_groups=tuple(groups),
        int8_mac_fraction=1 - len(groups) / 10,
        cost=1.0,
        measures=(cosine_measure(mean),),
        step=step,
    )


def sets(chain: list[CurvePoint]) -> list[str]:
    return ["".join(x.fp16_groups) for x in chain]


def test_plans_along_two_rankings_are_two_lines() -> None:
    curve = [point(x) for x in ("", "a", "abc", "abcd", "c", "cd", "bcd")]
    lines, others = walks(curve)
    assert [sets(x) for x in lines] == [["", "a", "abc", "abcd"], ["c", "cd", "bcd"]]
    assert others == []


def test_a_closer_look_lies_on_the_line_where_it_fits_and_a_step_back_never_does() -> None:
    curve = [*(point(x) for x in ("", "abc", "abcd", "d", "cd")), point("ab", "refine")]
    lines, others = walks([*curve, point("ac", "backward")])
    assert [sets(x) for x in lines] == [["", "ab", "abc", "abcd"], ["d", "cd"]]
    assert sets(others) == ["ac"]


def test_a_closer_look_that_is_on_no_line_is_beside_them() -> None:
    lines, others = walks([point(""), point("ab"), point("x", "refine")])
    assert [sets(x) for x in lines] == [["", "ab"]] and sets(others) == ["x"]


def heights(svg: str, count: int) -> list[float]:
    """Of the points of the first line that has so many, downwards from the top, by share."""
    for path in re.findall(r'<path d="([^"]*)"[^>]*style="fill: none[^"]*stroke: var', svg):
        pairs = re.findall(r"[ML] ([\d.]+) ([\d.]+)", path)
        if len(pairs) == count:
            return [float(y) for x, y in sorted(pairs, key=lambda pair: float(pair[0]))]
    raise AssertionError(f"no line with {count} points")


def test_a_line_is_as_accuracy_is_though_that_is_not_monotone() -> None:
    means = {"": 0.97, "a": 0.96, "ab": 0.995, "abc": 0.99, "abcd": 1.0}
    curve = tuple(point(groups, mean=mean) for groups, mean in means.items())
    svg = curve_plot(sweep().model_copy(update={"curve": curve}))
    drawn = heights(svg, 5)[::-1]  # the most INT8 first; the smaller, the higher up
    by_height = sorted(range(5), key=lambda i: drawn[i])
    assert by_height == sorted(range(5), key=lambda i: -list(means.values())[i])


def test_the_curve_shows_budget_policies_and_what_its_height_is() -> None:
    svg = curve_plot(sweep())
    for label in ("budget", "policy none", "policy attention", "policy auto", "mean cosine<"):
        assert f">{label}" in svg
    assert ">rise of the perplexity, %<" in curve_plot(perplexity_sweep())


def test_the_height_is_what_has_a_limit() -> None:
    assert measured_by(perplexity_sweep()).head == "rise"


def test_without_a_limit_there_is_no_line_of_the_budget() -> None:
    found = sweep()
    free = tuple(
        x.model_copy(update={"measures": (cosine_measure(0.98, limit=None),)})
        for x in found.policies
    )
    svg = curve_plot(found.model_copy(update={"policies": free}))
    assert ">budget" not in svg and ">policy none" in svg


def test_a_policy_far_beyond_the_budget_is_at_the_edge_with_its_figure() -> None:
    found = perplexity_sweep()
    worst = found.policies[0].model_copy(update={"measures": (perplexity_measure(2000.0),)})
    svg = curve_plot(found.model_copy(update={"policies": (worst, *found.policies[1:])}))
    assert ">policy none, held-out samples: 9900%<" in svg  # from 20
    assert ">policy auto, held-out samples<" in svg
    # The axis ends at ten times the budget of 6%.
    ticks = [float(x) for x in re.findall(r">(-?\d+(?:\.\d+)?)<", svg)]
    assert max(ticks) <= 100


@pytest.mark.parametrize("number", [NAN, float("inf")])
def test_broken_outputs_can_be_drawn(number: float) -> None:
    broken = {"value": number, "damage": number, "low": NAN, "high": number}
    for found in (sweep(), perplexity_sweep()):
        update = {"measures": (found.policies[0].measures[0].model_copy(update=broken),)}
        record = found.model_copy(
            update={
                "curve": tuple(x.model_copy(update=update) for x in found.curve),
                "policies": tuple(x.model_copy(update=update) for x in found.policies),
            }
        )
        assert "<svg" in curve_plot(record)


def test_a_policy_without_a_search_can_be_drawn() -> None:
    assert ">policy none" in curve_plot(sweep().model_copy(update={"curve": ()}))
