"""From scores to a plan: verification has the last word, and a kill costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from quantflow.artifacts.journal import Journal
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PlannedGroup, PrecisionPlan
from quantflow.artifacts.sweep_record import PolicyResult
from quantflow.config import BudgetConfig, Config, PlanConfig
from quantflow.progress import no_progress
from quantflow.sensitivity.sweep import Found, sweep
from tests.graph.masked_blocks import MASK_NAME, masked_encoder, samples

from .builders import Bench, bench, names

BUDGET = 0.999


@pytest.fixture(scope="module")
def small() -> Bench:
    feeds = samples((6, 5, 6, 4))
    return bench(masked_encoder(1), feeds, {"batch": 2, "length": 6}, mask=MASK_NAME)


class StubVerifier:
    """Says what the tests want of a plan; remembers which plans it was shown."""

    def __init__(self, record: ModelRecord, accuracy: Callable[[list[str]], float]) -> None:
        self.record = record
        self.accuracy = accuracy
        self.shown: list[list[str]] = []

    def run(self, plan: PrecisionPlan) -> PolicyResult:
        self.shown.append(plan.fp16_groups)
        value = self.accuracy(plan.fp16_groups)
        return PolicyResult(
            policy=plan.policy, fp16_groups=len(plan.fp16_groups), int8_mac_fraction=0,
            boundaries=0, cosine_mean=value, cosine_min=value, cosine_low=value, cosine_high=value,
            meets_budget=value >= BUDGET,
        )  # fmt: skip


def run(
    b: Bench,
    directory: Path,
    accuracy: Callable[[list[str]], float],
    pinned: Mapping[str, PlannedGroup] | None = None,
    metric: str = "cosine",
) -> tuple[Found, StubVerifier]:
    config = Config.model_construct(
        plan=PlanConfig.model_validate({"metric": metric}),
        budget=BudgetConfig(cosine_mean=BUDGET),
        run=Config.model_fields["run"].default,
    )
    verifier = StubVerifier(b.record, accuracy)
    journal = Journal(directory / "journal.jsonl")
    found = sweep(b.model, b.probe, verifier, pinned or {}, (), config, journal, no_progress)
    return found, verifier


def test_a_plan_that_holds_is_verified_once(small: Bench, tmp_path: Path) -> None:
    found, verifier = run(small, tmp_path, lambda _: 0.9999)
    assert len(verifier.shown) == 1 and found.reasons == ()
    assert set(found.plan.groups) == set(names(small)) and found.plan.policy == "auto"
    assert found.result.meets_budget


def test_groups_are_added_until_verification_is_content(small: Bench, tmp_path: Path) -> None:
    # The search's own samples say that all is well; the others need three groups in fp16.
    found, verifier = run(small, tmp_path, lambda fp16: 0.9995 if len(fp16) >= 3 else 0.99)
    assert verifier.shown[0] == [] and len(verifier.shown[-1]) >= 3
    assert found.plan.fp16_groups == verifier.shown[-1] and found.result.meets_budget
    for place, score in enumerate(found.scores, 1):
        if score.group not in found.plan.fp16_groups:
            continue
        reason = found.plan.groups[score.group].reason
        assert f"rank {place}" in reason and f"{score.damage:.3g}" in reason


def test_verification_does_not_assume_that_accuracy_grows(small: Bench, tmp_path: Path) -> None:
    by_count = [0.99, 0.5, 0.98, 0.2, 0.9991, 0.3]
    found, _ = run(small, tmp_path, lambda fp16: by_count[len(fp16)])
    assert len(found.plan.fp16_groups) == 4 and found.result.meets_budget


def test_when_nothing_holds_the_best_plan_is_kept_and_it_is_said(
    small: Bench, tmp_path: Path
) -> None:
    by_count = [0.99, 0.5, 0.98, 0.9985, 0.97, 0.3]
    found, verifier = run(small, tmp_path, lambda fp16: by_count[len(fp16)])
    assert len(verifier.shown) == 6  # everything was tried
    assert len(found.plan.fp16_groups) == 3 and not found.result.meets_budget
    (reason,) = found.reasons
    assert "0.998500" in reason and "3 groups" in reason and str(BUDGET) in reason


@pytest.mark.parametrize("broken", [0, 3, 5])
def test_a_plan_that_gives_nan_is_never_the_best(small: Bench, tmp_path: Path, broken: int) -> None:
    def accuracy(fp16: list[str]) -> float:
        return float("nan") if len(fp16) == broken else 0.9 + 0.01 * len(fp16)

    found, _ = run(small, tmp_path, accuracy)
    assert len(found.plan.fp16_groups) == (4 if broken == 5 else 5)
    assert not found.result.meets_budget and found.reasons


def test_pins_hold_whatever_verification_says(small: Bench, tmp_path: Path) -> None:
    first, second = names(small)[:2]
    pinned = {
        first: PlannedGroup(precision="int8", reason="pinned"),
        second: PlannedGroup(precision="fp16", reason="pinned"),
    }
    found, verifier = run(small, tmp_path, lambda _: 0.1, pinned)
    assert all(first not in fp16 and second in fp16 for fp16 in verifier.shown)
    assert max(len(fp16) for fp16 in verifier.shown) == len(names(small)) - 1
    assert all(first not in p.fp16_groups and second in p.fp16_groups for p in found.curve)
    assert found.plan.groups[first] == pinned[first]
    assert found.plan.groups[second] == pinned[second]
    # Pinned groups are scored all the same, for a person to see what pins cost.
    assert {score.group for score in found.scores} == set(names(small))


def test_a_second_run_reads_everything_from_the_journal(small: Bench, tmp_path: Path) -> None:
    found, _ = run(small, tmp_path, lambda fp16: 0.9995 if len(fp16) >= 2 else 0.99)
    lines = (tmp_path / "journal.jsonl").read_text().splitlines()
    again, verifier = run(small, tmp_path, lambda _: 0.5)
    assert again == found and verifier.shown == []
    assert (tmp_path / "journal.jsonl").read_text().splitlines() == lines


def test_the_curve_goes_from_no_group_to_all_of_them(small: Bench, tmp_path: Path) -> None:
    found, _ = run(small, tmp_path, lambda _: 1.0)
    counts = [len(point.fp16_groups) for point in found.curve]
    assert min(counts) == 0 and max(counts) == len(names(small))
    sets = [point.fp16_groups for point in found.curve]
    assert len(set(sets)) == len(sets)
    last = next(p for p in found.curve if len(p.fp16_groups) == len(names(small)))
    assert last.cosine_mean == pytest.approx(1, abs=1e-12) and last.int8_mac_fraction == 0


@pytest.mark.parametrize("metric", ["relative_error", "kl"])
def test_the_budget_is_a_cosine_whatever_groups_are_ranked_by(
    small: Bench, tmp_path: Path, metric: str
) -> None:
    found, _ = run(small, tmp_path, lambda _: 1.0, metric=metric)
    assert all(0.99 < point.cosine_mean <= 1 + 1e-9 for point in found.curve)
    assert all(np.isfinite(score.damage) and score.damage >= 0 for score in found.scores)
