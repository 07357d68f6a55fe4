"""Metrics of a sample: which way they point, what samples come to, and what is handed in."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.config import Metric as MetricName
from quantflow.config import TaskConfig
from quantflow.numerics.error_metrics import sqnr_db
from quantflow.tasks.metrics import (
    METRICS,
    Judged,
    Metric,
    perplexity_metric,
    task_metric,
    user_metric,
    weighted_mean,
)

TOKENS = np.array([2, 0, 1, 3, 1])
"""Of the one text that every metric is tried on."""


def rand(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def judged(reference: np.ndarray, output: np.ndarray) -> Judged:
    return Judged("s", {"ids": TOKENS}, {"y": reference}, {"y": output})


@pytest.fixture
def every(tmp_path: Path) -> dict[str, Metric]:
    """The table, the perplexity, and a user's figure in either direction."""
    (tmp_path / "mine_both.py").write_text(
        "def loss(id, inputs, outputs):\n"
        "    ids, y = inputs['ids'], outputs['y']\n"
        "    return -y[range(len(ids) - 1), ids[1:]].mean()\n"
        "def gain(id, inputs, outputs):\n"
        "    return -loss(id, inputs, outputs)\n"
    )
    return METRICS | {
        "perplexity": perplexity_metric("ids"),
        "loss": user_metric("mine_both:loss", tmp_path, higher_is_better=False),
        "gain": user_metric("mine_both:gain", tmp_path, higher_is_better=True),
    }


def test_the_table_and_the_tasks_are_those_of_the_configuration() -> None:
    assert {*METRICS, "perplexity", "function"} == set(get_args(MetricName))


def test_damage_is_larger_for_worse_outputs_whichever_way_a_metric_points(
    every: dict[str, Metric],
) -> None:
    # C36: what is right for cosine, accuracy or a gain is wrong for perplexity, KL or a loss.
    good = np.full((5, 4), -4, np.float32)
    good[range(4), TOKENS[1:]] = 4
    good[4] = 0, 1, 2, 3
    for name, metric in every.items():
        damages = []
        for share in (0.0, 0.2, 0.7, 1.0):  # from the text's next token to another one
            output = (1 - share) * good + share * np.roll(good, 1, axis=-1)
            values = np.array(
                [metric.value(judged(good, x.astype(np.float32))) for x in (good, output)]
            )
            damages.append(float(metric.damage(values[1:], values[:1])[0]))
        assert damages[0] == pytest.approx(0, abs=1e-12), name
        assert damages == sorted(damages) and damages[-1] > 0.05, name


def test_the_direction_of_every_metric_is_the_one_its_definition_has(
    every: dict[str, Metric],
) -> None:
    assert {name for name, metric in every.items() if metric.higher_is_better} == {
        "cosine", "agreement", "gain",
    }  # fmt: skip


@pytest.mark.parametrize("name", METRICS)
def test_the_float_models_own_outputs_are_perfect(name: str) -> None:
    metric, a = METRICS[name], rand(4, 6)
    assert metric.needs_reference
    assert metric.value(judged(a, a)) == pytest.approx(metric.perfect, abs=1e-12)


def test_only_metrics_of_outputs_ask_for_the_float_models(every: dict[str, Metric]) -> None:
    assert {name for name, metric in every.items() if not metric.needs_reference} == {
        "perplexity", "loss", "gain",
    }  # fmt: skip


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_decibels_of_one_sample_are_its_signal_to_noise_ratio(seed: int, size: int) -> None:
    a, b = rand(size, 3, seed=seed), rand(size, 3, seed=seed + 1)
    metric = METRICS["sqnr"]
    value = metric.over_samples(np.array([metric.value(judged(a, b))]))
    assert value == pytest.approx(sqnr_db(a, b), rel=1e-9, abs=1e-9)


def test_decibels_of_samples_of_equal_power_are_those_of_all_as_one() -> None:
    metric = METRICS["sqnr"]
    pairs = [(rand(9, seed=i), rand(9, seed=i + 7)) for i in range(4)]
    pairs = [(a / np.linalg.norm(a), b) for a, b in pairs]
    values = np.array([metric.value(judged(a, b)) for a, b in pairs])
    signal, noise = (sum(float(np.square(x).sum()) for x in y) for y in (
        (a for a, _ in pairs), (a - b for a, b in pairs),
    ))  # fmt: skip
    assert metric.over_samples(values) == pytest.approx(10 * np.log10(signal / noise), rel=1e-5)
    assert metric.over_samples(np.zeros(3)) == np.inf


def test_cosine_is_of_all_float_outputs_and_divergence_of_the_first() -> None:
    a, b = rand(2, 5), rand(2, 5, seed=1)
    x, y = rand(3, seed=2), rand(3, seed=3)
    ids = {"best": np.array([1, 2])}  # no float, so that it does not count
    found = Judged("s", {}, {**ids, "y": a, "z": x}, {**ids, "y": b, "z": y})
    u, v = (np.concatenate([p.ravel(), q]).astype(float) for p, q in ((a, x), (b, y)))
    expected = u @ v / np.sqrt((u @ u) * (v @ v))
    assert METRICS["cosine"].value(found) == pytest.approx(expected, rel=1e-6)
    assert METRICS["kl"].value(found) == METRICS["kl"].value(judged(a, b)) > 0


def test_agreement_is_the_share_of_positions_whose_class_stays() -> None:
    a = np.eye(4, dtype=np.float32)
    assert METRICS["agreement"].value(judged(a, a[[0, 1, 3, 2]])) == 0.5


def test_perplexity_is_that_of_torchs_cross_entropy_and_its_damage_a_logarithm() -> None:
    metric = perplexity_metric("ids")
    texts = [rand(5, 7, seed=i) * 3 for i in range(4)]
    found = [Judged("s", {"ids": TOKENS}, {}, {"y": logits}) for logits in texts]
    values = np.array([metric.value(x) for x in found])
    losses = torch.nn.functional.cross_entropy(
        torch.from_numpy(np.concatenate([x[:-1] for x in texts])).double(),
        torch.from_numpy(np.tile(TOKENS[1:], 4)),
    )
    assert metric.over_samples(values) == pytest.approx(float(losses.exp()), rel=1e-9)
    damage = metric.damage(values + 0.25, values).mean()
    ratio = metric.over_samples(values + 0.25) / metric.over_samples(values)
    assert damage == pytest.approx(np.log(ratio), rel=1e-9)
    assert metric.weight is not None and metric.weight(found[0]) == 4
    assert metric.over_samples(np.array([1e4, 1e4])) == np.inf


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.integers(0, 9)), min_size=1, max_size=9))
def test_a_weight_counts_like_that_many_equal_values(pairs: list[tuple[float, int]]) -> None:
    values, weights = (np.array(x, float) for x in zip(*pairs, strict=True))
    repeated = [value for value, count in pairs for _ in range(count)]
    found = weighted_mean(values, weights)
    if repeated:
        assert found == pytest.approx(np.mean(repeated), rel=1e-9, abs=1e-9)
        values[weights == 0] = np.nan
        assert weighted_mean(values, weights) == found
    else:
        assert np.isnan(found)


def test_what_is_infinite_in_both_models_is_no_damage_that_can_be_told() -> None:
    with np.errstate(all="raise"):
        found = METRICS["kl"].damage(np.array([np.inf, np.inf]), np.array([np.inf, 0]))
        assert np.isnan(found[0]) and found[1] == np.inf
        assert np.isnan(weighted_mean(np.array([np.inf, -np.inf])))


def test_a_task_has_the_metric_of_its_kind(tmp_path: Path) -> None:
    (tmp_path / "mine_kind.py").write_text("def f(id, inputs, outputs):\n    return len(id)\n")
    function = TaskConfig(kind="function", function="mine_kind:f", higher_is_better=True)
    metric = task_metric(function, tmp_path)
    assert metric is not None and metric.higher_is_better
    assert metric.value(Judged("four", {}, {}, {})) == 4
    assert task_metric(TaskConfig(kind="agreement"), tmp_path) is METRICS["agreement"]
    perplexity = task_metric(TaskConfig(kind="perplexity", tokens="ids"), tmp_path)
    assert perplexity is not None and perplexity.weight is not None
    similarity = TaskConfig.model_validate(
        {"kind": "similarity", "source": {"kind": "text", "path": "a"}, "scores": "b.npy"}
    )
    assert task_metric(similarity, tmp_path) is None
