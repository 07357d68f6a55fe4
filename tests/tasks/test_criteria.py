"""What the budget allows, as damages that plans and models are held to."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantflow.config import Config
from quantflow.tasks.criteria import Criterion, Limit, asked_drop, criteria, task_limit

SOURCE = {"kind": "npz", "path": "t.npz"}
OWN_RECORDS: dict[str, dict[str, Any]] = {
    "classification": {"kind": "classification", "source": SOURCE, "labels": "l.txt"},
    "retrieval": {"kind": "retrieval", "queries": SOURCE, "documents": SOURCE},
    "similarity": {"kind": "similarity", "source": SOURCE, "scores": "s.npy"},
}
TASKS: dict[str, dict[str, Any]] = {
    "perplexity": {"kind": "perplexity"},
    "agreement": {"kind": "agreement"},
    "function": {"kind": "function", "function": "mine_asked:f", "higher_is_better": True},
}


def asked(base: Path, kind: str = "", **budget: float) -> dict[str, Criterion]:
    (base / "mine_asked.py").write_text("def f(id, inputs, outputs):\n    return 0\n")
    return criteria(configured(kind, **budget), base)


def configured(kind: str = "", **budget: float) -> Config:
    return Config.model_validate(
        {
            "model": {"onnx": "m.onnx"},
            "set": {"candidates": {"kind": "npz", "path": "x.npz"}},
            "budget": budget,
            "task": (TASKS | OWN_RECORDS).get(kind),
        }
    )


def test_where_no_accuracy_is_asked_for_a_cosine_is(tmp_path: Path) -> None:
    for kind in ("", *TASKS):
        found = asked(tmp_path, kind, fp16_groups=3, int8_mac_fraction=0.5)
        assert next(iter(found)) == "cosine"
        assert found["cosine"].limit == pytest.approx(1 - 0.99, abs=1e-15)
        assert found["cosine"].key == "budget.cosine_mean is 0.99"
        assert [found[name].limit for name in found if name != "cosine"] == [None] * bool(kind)
        assert set(found) == {"cosine", *filter(None, [kind])}


@pytest.mark.parametrize(
    ("kind", "key", "value", "limit"),
    [
        ("perplexity", "perplexity_rise_fraction", 0.06, math.log(1.06)),
        ("agreement", "agreement_fraction", 0.98, 0.02),
        ("function", "task_drop", 0.015, 0.015),
        ("function", "task_drop", 0.0, 0.0),
    ],
)
def test_a_task_that_is_asked_for_comes_first_and_leaves_the_cosine_free(
    tmp_path: Path, kind: str, key: str, value: float, limit: float
) -> None:
    found = asked(tmp_path, kind, **{key: value})
    assert list(found) == [kind, "cosine"]
    assert found[kind].limit == pytest.approx(limit, rel=1e-12)
    assert found[kind].key == f"budget.{key} is {value}"
    assert found["cosine"].limit is None and not found["cosine"].key


def test_both_are_asked_for_where_both_are_given(tmp_path: Path) -> None:
    found = asked(tmp_path, "perplexity", perplexity_rise_fraction=0.1, cosine_mean=0.7)
    assert list(found) == ["perplexity", "cosine"]
    assert found["cosine"].limit == pytest.approx(0.3)


@pytest.mark.parametrize("kind", OWN_RECORDS)
def test_plans_are_not_held_to_a_task_with_records_of_its_own(kind: str, tmp_path: Path) -> None:
    found = asked(tmp_path, kind, task_drop=0.02)
    assert list(found) == ["cosine"]
    assert found["cosine"].key == "budget.cosine_mean is 0.99"
    limit = task_limit(configured(kind, task_drop=0.02))
    assert limit == Limit(kind, 0.02, "budget.task_drop is 0.02")  # pyright: ignore
    assert task_limit(configured(kind)) == Limit(kind)  # pyright: ignore


@pytest.mark.parametrize("kind", ["", *TASKS])
def test_a_task_on_evaluation_samples_is_a_criterion_and_no_such_limit(kind: str) -> None:
    assert task_limit(configured(kind)) is None


@pytest.mark.parametrize(
    ("kind", "budget", "drop"),
    [
        ("", {}, None),
        ("function", {}, None),
        ("function", {"task_drop": 0.3}, 0.3),
        ("classification", {}, 0.005),
        ("classification", {"task_drop": 0.02}, 0.02),
        ("retrieval", {}, 0.01),
        ("retrieval", {"task_drop": 0.0}, 0.01),  # no number of samples shows a drop of nothing
        ("similarity", {}, 0.01),
        ("agreement", {}, 0.005),
        ("agreement", {"agreement_fraction": 0.98}, 0.02),
        ("perplexity", {}, math.log(1.05)),
        ("perplexity", {"perplexity_rise_fraction": 0.1}, math.log(1.1)),
    ],
)
def test_the_drop_to_look_for_is_the_budgets_or_the_usual_one(
    kind: str, budget: dict[str, float], drop: float | None
) -> None:
    found = asked_drop(configured(kind, **budget))
    assert found == (drop if drop is None else pytest.approx(drop, rel=1e-12))


@given(st.integers(1, 400), st.data())
def test_a_share_that_is_just_reached_is_within_the_limit(count: int, data: Any) -> None:
    # 10 decisions of 100 that change are the 0.1 that 0.9 allows; in floats, 1 - 0.9 is less.
    least = data.draw(st.integers(1, 100)) / 100
    limit = asked_limit(least)
    changed = math.floor(count * (100 - round(100 * least)) / 100)
    damage = np.repeat([1.0, 0.0], [changed, count - changed]).mean()
    assert damage <= limit
    more = np.repeat([1.0, 0.0], [changed + 1, max(count - changed - 1, 0)]).mean()
    assert more > limit


def asked_limit(least: float) -> float:
    config = Config.model_validate(
        {
            "model": {"onnx": "m.onnx"},
            "set": {"candidates": {"kind": "npz", "path": "x.npz"}},
            "budget": {"agreement_fraction": least},
            "task": {"kind": "agreement"},
        }
    )
    limit = criteria(config, Path())["agreement"].limit
    assert limit is not None
    return limit
