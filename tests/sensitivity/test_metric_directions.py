"""Whichever way a metric points, the group that hurts most comes first (C36)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.config import TaskConfig
from quantflow.sensitivity.ranking import rank
from quantflow.tasks.metrics import METRICS, Judged, Metric, perplexity_metric, task_metric
from tests.graph.masked_blocks import MASK_NAME, masked_encoder, samples

from .builders import Bench, assessment, bench, brute_force, names, outputs_of, record_of

LENGTHS = (6, 4, 6, 3, 5)
FIGURES = """
import numpy as np

def scaled_error(sample, inputs, outputs):
    # Distance of the output from a fixed target, as a task's own loss has it.
    return float(np.abs(outputs["y"] - np.tanh(inputs["x"])).mean())

def reward(sample, inputs, outputs):
    return -scaled_error(sample, inputs, outputs)
"""


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Metric]:
    """Every metric of outputs, and two figures of a user's that point either way."""
    folder = tmp_path_factory.mktemp("figures")
    (folder / "figures.py").write_text(FIGURES)

    def user(name: str, *, higher: bool) -> Metric:
        task = {"kind": "function", "function": f"figures:{name}", "higher_is_better": higher}
        found = task_metric(TaskConfig.model_validate(task), folder)
        assert found is not None
        return found

    return {
        **METRICS,
        "loss": user("scaled_error", higher=False),
        "reward": user("reward", higher=True),
    }


VICTIM = 3


@pytest.fixture(scope="module")
def wild(figures: dict[str, Metric]) -> Bench:
    """One group was calibrated with a wild value: its steps are far too wide."""
    feeds = samples(LENGTHS)
    dims = {"batch": 2, "length": 6}
    exact = bench(masked_encoder(1), feeds, dims, mask=MASK_NAME)
    tensor = exact.record.groups[VICTIM].tensor
    return bench(
        masked_encoder(1), feeds, dims, mask=MASK_NAME, metrics=figures,
        bounds={tensor: (-300.0, 300.0)},
    )  # fmt: skip


NAMES = ["cosine", "sqnr", "relative_error", "kl", "agreement"]


@pytest.mark.parametrize("metric", NAMES[:-1])
def test_an_outlier_group_ranks_first_by_every_distance(wild: Bench, metric: str) -> None:
    found = assessment(wild, metric=metric).run()
    first, second = found.scores[:2]
    assert first.group == names(wild)[VICTIM]
    assert first.one_in.damage > 3 * max(second.one_in.damage, 0.0) and first.rank_low == 1
    assert first.one_in.low > 0 and not first.tied
    assert first.one_out.damage == max(score.one_out.damage for score in found.scores)


@pytest.mark.parametrize("metric", ["loss", "reward"])
def test_a_users_figure_ranks_by_the_direction_that_is_declared(wild: Bench, metric: str) -> None:
    exact = outputs_of(wild, wild.static)

    def figure(outputs: dict[str, np.ndarray], sample: int) -> float:
        target = np.tanh(wild.samples[sample]["x"])
        return float(np.abs(outputs["y"] - target).mean()) * (1 if metric == "loss" else -1)

    found = assessment(wild, metric=metric).run()
    sign = 1 if metric == "loss" else -1
    for score in found.scores:
        alone = brute_force(wild, [score.group])
        values = [figure(outputs, i) for i, outputs in enumerate(alone)]
        of_float = [figure(outputs, i) for i, outputs in enumerate(exact)]
        assert score.one_in.value == pytest.approx(np.mean(values), abs=1e-6)
        expected = sign * (np.mean(values) - np.mean(of_float))
        assert score.one_in.damage == pytest.approx(expected, abs=1e-6)
    damages = [x.one_in.damage for x in found.scores if not x.tied]
    assert damages == sorted(damages, reverse=True)
    # Both ways of pointing are one order.
    other = assessment(wild, metric="reward" if metric == "loss" else "loss").run()
    assert [x.group for x in other.scores] == [x.group for x in found.scores]


def test_values_of_metrics_are_those_of_their_definitions(wild: Bench) -> None:
    exact = outputs_of(wild, wild.static)
    for metric in NAMES[1:]:
        found = assessment(wild, metric=metric).run()
        score = found.scores[0]
        pairs = zip(exact, brute_force(wild, [score.group]), strict=True)
        values = np.array([by_definition(metric, e["y"], o["y"]) for e, o in pairs])
        value = float(values.mean())
        shown = -10 * np.log10(value) if metric == "sqnr" else value
        assert score.one_in.value == pytest.approx(shown, rel=1e-3)
        assert score.one_in.damage == pytest.approx(
            1 - value if metric == "agreement" else value, rel=1e-3
        )


def by_definition(metric: str, y: np.ndarray, other: np.ndarray) -> float:
    y, other = y.astype(np.float64), other.astype(np.float64)
    if metric == "agreement":
        return float((y.argmax(-1) == other.argmax(-1)).mean())
    if metric == "kl":
        p, q = (np.exp(x) / np.exp(x).sum(-1, keepdims=True) for x in (y, other))
        return float((p * np.log(p / q)).sum(-1).mean())
    ratio = ((y - other) ** 2).sum() / (y**2).sum()
    return float(ratio if metric == "sqnr" else np.sqrt(ratio))


# --- without a model ----------------------------------------------------------------------------


def judged(reference: np.ndarray, outputs: np.ndarray) -> Judged:
    return Judged("s", {}, {"y": reference}, {"y": outputs})


def order(metric: Metric, values: np.ndarray) -> list[int]:
    of_float = np.full(values.shape[1], metric.perfect)
    groups = record_of({f"g{i}": 1 for i in range(len(values))}).groups
    return list(rank(groups, metric.damage(values, of_float), seed=0).order)


@pytest.mark.parametrize("name", NAMES)
def test_more_noise_ranks_higher_by_every_metric(name: str) -> None:
    rng = np.random.default_rng(0)
    exact = rng.normal(size=(20, 40, 3)).astype(np.float32)
    noise = rng.normal(size=exact.shape).astype(np.float32)
    sizes = np.float32([0.2, 0.8, 0.0, 0.4, 0.1])
    values = np.array([
        [METRICS[name].value(judged(a, a + size * n)) for a, n in zip(exact, noise, strict=True)]
        for size in sizes
    ])  # fmt: skip
    assert order(METRICS[name], values) == [1, 3, 0, 4, 2]


@pytest.mark.parametrize("name", NAMES)
def test_an_output_that_is_not_finite_is_worst_by_every_metric(name: str) -> None:
    exact = np.array([[1.0, 2.0, 3.0], [4.0, 0.0, 1.0]], np.float32)
    metric = METRICS[name]
    mild = metric.value(judged(exact, exact[::-1]))
    for bad in (np.nan, np.inf, -np.inf):
        other = np.array([[1.0, bad, 3.0], [bad, 0.0, 1.0]], np.float32)
        broken = metric.value(judged(exact, other))
        damage = metric.damage(np.array([broken]), np.array([metric.perfect]))[0]
        of_mild = metric.damage(np.array([mild]), np.array([metric.perfect]))[0]
        assert np.isnan(damage) or damage == np.inf or damage >= of_mild > 0


def test_a_text_foretold_badly_is_worse_than_one_foretold_well() -> None:
    metric = perplexity_metric("ids")
    ids = np.array([0, 1, 2, 0])
    right = np.eye(3, dtype=np.float32)[[1, 2, 0, 0]]
    good, bad = (
        metric.value(Judged("s", {"ids": ids}, {}, {"y": logits})) for logits in (right, -right)
    )
    damage = metric.damage(np.array([bad]), np.array([good]))[0]
    assert bad > good and damage == pytest.approx(bad - good) and not metric.needs_reference


@settings(max_examples=40)
@given(st.permutations(range(5)), st.sampled_from(sorted(METRICS)))
def test_the_order_is_that_of_damage_whichever_way_the_metric_points(
    listed: list[int], name: str
) -> None:
    metric = METRICS[name]
    assert metric.perfect is not None
    sign = -1 if metric.higher_is_better else 1
    values = np.array([[metric.perfect + sign * 0.1 * (i + 1)] * 3 for i in listed])
    assert [listed[index] for index in order(metric, values)] == [4, 3, 2, 1, 0]
