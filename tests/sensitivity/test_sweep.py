"""From scores to a plan: verification has the last word, and what stands in the way is said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.artifacts.journal import Journal
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PlannedGroup, PrecisionPlan
from quantflow.artifacts.ranges_record import Island
from quantflow.artifacts.record import Verdict
from quantflow.artifacts.sweep_record import Measure, PolicyResult
from quantflow.config import Config, PlanConfig
from quantflow.progress import no_progress
from quantflow.runtime.workers import ALONE
from quantflow.sensitivity.assess import Assessed, Assessment
from quantflow.sensitivity.cost import CostModel
from quantflow.sensitivity.ledger import Ledger
from quantflow.sensitivity.search import Limits, int8_share
from quantflow.sensitivity.sweep import Found, Sweep
from quantflow.tasks.criteria import Criterion

from .fakes import FakeModel, Harm, fake_probe, fake_record, harm_metric

LIMIT = 0.01
SIX = dict.fromkeys("abcdef", 10)
HARM = {name: 6e-4 - 1e-4 * place for place, name in enumerate("abcdef")}

Verify = Callable[[list[str]], float]


def added(table: Mapping[str, float], factor: float = 1.0) -> Harm:
    """Damages of the groups in INT8, added up; the same on every sample."""
    return lambda int8, side, sample: factor * sum(table[name] for name in sorted(int8))


@dataclass
class StubVerifier:
    """Says what the tests want of a plan; remembers which plans it was shown."""

    record: ModelRecord
    config: Config
    criteria: Mapping[str, Criterion]
    cost: CostModel
    limits: Limits
    verify: Verify
    sides: Mapping[str, float]
    shown: list[list[str]] = field(default_factory=list[list[str]])

    def run(self, plan: PrecisionPlan) -> PolicyResult:
        fp16 = plan.fp16_groups
        if plan.policy == "auto":
            self.shown.append(fp16)
            measure = self._measure(self.verify(fp16))
        else:
            side = "int8" if not fp16 else "fp16"
            assert len(fp16) in (0, len(self.record.groups))
            measure = self._measure(self.sides.get(side, 0.0))
        share = int8_share(self.record, frozenset(fp16))
        within = self.limits.allow(self.record, frozenset(fp16))
        return PolicyResult(
            policy=plan.policy, fp16_groups=len(fp16), int8_mac_fraction=share, boundaries=0,
            cost=self.cost.of(fp16), measures=(measure,), cosine_min=0.0,
            meets_budget=within and measure.meets,
        )  # fmt: skip

    def one_side(self, plan: PrecisionPlan, side: str) -> tuple[Measure, ...]:
        assert plan.fp16_groups == []
        return (self._measure(self.sides.get(side, 0.0)),)

    def _measure(self, damage: float) -> Measure:
        return Measure(
            metric="cosine", value=1 - damage, damage=damage, low=damage, high=damage, limit=LIMIT
        )


@dataclass
class Run:
    """A sweep, what it found, and what was asked on the way."""

    found: Found
    verifier: StubVerifier
    model: FakeModel
    assessed: Assessed

    @property
    def chosen(self) -> list[str]:
        return self.found.plan.fp16_groups

    @property
    def shown(self) -> list[list[str]]:
        return self.verifier.shown


def sweep(
    verify: Verify,
    harm: Harm | None = None,
    *,
    macs: Mapping[str, int] = SIX,
    boundary: float = 0.0,
    limits: Limits | None = None,
    pinned: Mapping[str, PlannedGroup] | None = None,
    sides: Mapping[str, float] | None = None,
    coverage: Verdict = "pass",
    journal: Path | None = None,
    islands: Sequence[Island] = (),
    progress: Callable[[str, int, int], None] = no_progress,
    **plan: Any,
) -> Run:
    """Search on four samples with `harm`, verify with `verify`."""
    record = fake_record(macs)
    model = FakeModel(record)
    metric = harm_metric(list(macs), harm or added(HARM), -1, 1.0)
    probe = fake_probe(model, record, {"cosine": metric}, 4)
    int8 = {name: size + boundary for name, size in macs.items()}
    config = Config.model_construct(
        plan=PlanConfig.model_validate(plan), run=Config.model_fields["run"].default
    )
    verifier = StubVerifier(
        record=record,
        config=config,
        criteria={"cosine": Criterion("cosine", metric, LIMIT, "budget.cosine_mean is 0.99")},
        cost=CostModel(int8, {name: 2.0 * size for name, size in macs.items()}, 0.0),
        limits=limits or Limits(),
        verify=verify,
        sides=sides or {},
    )
    ledger = Ledger(Journal(journal) if journal else None, ALONE)
    shared: dict[str, Any] = {
        "model": model, "probe": probe, "ledger": ledger, "progress": progress,
    }  # fmt: skip
    assessed = Assessment(record=record, metric="cosine", halving=False, seed=0, **shared).run()
    found = Sweep(
        verifier=verifier,  # pyright: ignore[reportArgumentType]
        pinned=pinned or {},
        islands=islands,
        coverage=coverage,
        **shared,
    ).run(assessed)
    return Run(found, verifier, model, assessed)


# --- verification has the last word -------------------------------------------------------------


def test_a_plan_that_holds_is_verified_once() -> None:
    island = Island(node="n", op_type="Pow", tensor="t", absmax=1e6)
    run = sweep(lambda _: 0.001, islands=[island])
    assert run.shown == [[]] and run.found.reasons == ()
    assert set(run.found.plan.groups) == set(SIX) and run.found.plan.policy == "auto"
    assert run.found.plan.islands == (island,)
    assert run.found.result.meets_budget


def test_the_search_aims_higher_by_what_verification_shows() -> None:
    # The verification samples are twice as hard; half of what is allowed has to do.
    def damage(fp16: Sequence[str]) -> float:
        return 0.008 / (1 + len(fp16))

    harm: Harm = lambda int8, side, sample: damage("x" * (6 - len(int8)))  # noqa: E731
    run = sweep(lambda fp16: 2 * damage(fp16), harm)
    assert [len(fp16) for fp16 in run.shown] == [0, 1]
    assert run.found.result.meets_budget and run.found.result.measures[0].damage == 0.008
    # Ten times as hard: a tenth of what is allowed is met by 7 groups, more than there are.
    run = sweep(lambda fp16: 10 * damage(fp16), harm)
    assert not run.found.result.meets_budget and len(run.chosen) == 6


def test_it_aims_a_second_time_where_once_is_not_enough() -> None:
    damages = {0: 0.009, 1: 0.007, 2: 0.005, 3: 0.004, 4: 0.003, 5: 0.002, 6: 0.0}
    verified = {0: 0.012, 1: 0.012, 2: 0.011, 3: 0.009}
    harm: Harm = lambda int8, side, sample: damages[6 - len(int8)]  # noqa: E731
    run = sweep(lambda fp16: verified[len(fp16)], harm)
    assert [len(fp16) for fp16 in run.shown] == [0, 1, 2, 3] and run.found.result.meets_budget


def test_groups_are_added_until_verification_is_content() -> None:
    # The search's own samples see no damage at all; the others need three groups in fp16.
    run = sweep(lambda fp16: 0.001 if len(fp16) >= 3 else 0.1, added(dict.fromkeys(SIX, 0.0)))
    assert run.shown[0] == [] and len(run.chosen) == 3
    assert run.found.result.meets_budget and run.found.reasons == ()


def test_larger_sets_that_were_passed_over_are_verified_before_a_larger_one_is_taken() -> None:
    macs = {f"g{i:02}": 10 for i in range(12)}
    harm = added(dict.fromkeys(macs, 0.0))
    run = sweep(lambda fp16: 0.001 if len(fp16) >= 6 else 0.1, harm, macs=macs)
    sizes = [len(fp16) for fp16 in run.shown]
    # 7 is the first on the way that holds, 5 was the last that did not.
    assert sizes[-3:] == [5, 7, 6] and len(run.chosen) == 6


def test_verification_does_not_assume_that_accuracy_grows() -> None:
    damages = [0.1, 0.5, 0.02, 0.008, 0.4, 0.8, 0.9]
    run = sweep(lambda fp16: damages[len(fp16)], added(dict.fromkeys(SIX, 0.0)))
    assert len(run.chosen) == 3 and run.found.result.meets_budget


@settings(max_examples=20)
@given(st.lists(st.floats(0, 0.04), min_size=7, max_size=7), st.integers(0, 2**16))
def test_the_plan_is_the_best_that_was_verified(damages: list[float], seed: int) -> None:
    table = dict(zip(SIX, np.random.default_rng(seed).uniform(0, 0.01, 6).tolist(), strict=True))
    run = sweep(lambda fp16: damages[len(fp16)], added(table))
    shown = [damages[len(fp16)] for fp16 in run.shown]
    assert run.chosen in run.shown
    if min(shown) <= LIMIT:
        assert run.found.result.meets_budget and run.found.reasons == ()
        holding = [len(x) for x, y in zip(run.shown, shown, strict=True) if y <= LIMIT]
        assert len(run.chosen) == min(holding), "the cheapest of those that hold"
    else:
        assert damages[len(run.chosen)] == min(shown)
        assert not run.found.result.meets_budget and run.found.reasons


def test_when_nothing_holds_the_best_plan_is_kept_and_it_is_said() -> None:
    damages = [0.1, 0.5, 0.02, 0.015, 0.03, 0.7, 0.02]
    run = sweep(lambda fp16: damages[len(fp16)], added(dict.fromkeys(SIX, 0.0)))
    assert len(run.chosen) == 3 and not run.found.result.meets_budget
    (reason,) = run.found.reasons
    assert "no plan meets the budget" in reason and "3 groups" in reason and "50.0%" in reason
    assert "0.985000" in reason and "budget.cosine_mean is 0.99" in reason


@pytest.mark.parametrize("broken", [0, 3, 6])
def test_a_plan_that_gives_nan_is_never_the_best(broken: int) -> None:
    def damage(fp16: list[str]) -> float:
        return float("nan") if len(fp16) == broken else 0.1 - 0.01 * len(fp16)

    run = sweep(damage, added(dict.fromkeys(SIX, 0.0)))
    assert len(run.chosen) == (5 if broken == 6 else 6)
    assert not run.found.result.meets_budget and run.found.reasons


# --- what is in the plan ------------------------------------------------------------------------


def test_every_group_in_fp16_has_its_rank_and_damage_as_reason() -> None:
    table = {"a": 0.001, "b": 0.009, "c": 0.002, "d": 0.008, "e": 0.001, "f": 0.001}
    run = sweep(lambda _: 0.001, added(table))
    assert run.chosen == ["b", "d"]
    groups = run.found.plan.groups
    assert "rank 1" in groups["b"].reason and "0.009" in groups["b"].reason
    assert "rank 2" in groups["d"].reason and "0.008" in groups["d"].reason
    assert all(groups[name].reason == "" for name in "acef")


def test_what_costs_least_for_the_damage_it_ends_goes_first() -> None:
    # `a` hurts twice as much as `b`, and costs a hundred times as much.
    macs = {"a": 1000, "b": 10, "c": 10}
    table = {"a": 0.008, "b": 0.004, "c": 0.001}
    run = sweep(lambda _: 0.001, added(table), macs=macs)
    assert run.chosen == ["b"]


def test_pins_hold_whatever_verification_says() -> None:
    pinned = {
        "a": PlannedGroup(precision="int8", reason="pinned"),
        "b": PlannedGroup(precision="fp16", reason="pinned"),
    }
    run = sweep(lambda _: 0.1, added(dict.fromkeys(SIX, 0.02)), pinned=pinned)
    assert all("a" not in fp16 and "b" in fp16 for fp16 in run.shown)
    assert max(len(fp16) for fp16 in run.shown) == 5
    assert all("a" not in p.fp16_groups and "b" in p.fp16_groups for p in run.found.curve)
    assert run.found.plan.groups["a"] == pinned["a"]
    assert run.found.plan.groups["b"] == pinned["b"]
    # Pinned groups are scored all the same, for a person to see what pins cost.
    assert {score.group for score in run.assessed.scores} == set(SIX)


def test_what_int8_makes_dearer_is_in_fp16_from_the_start_where_asked() -> None:
    macs = {"thin": 5, "b": 100, "c": 100}
    harmless = added(dict.fromkeys(macs, 0.0))
    assert sweep(lambda _: 0.0, harmless, macs=macs, boundary=20).chosen == []
    asked: dict[str, Any] = {"macs": macs, "boundary": 20, "fp16_where_cheaper": True}
    run = sweep(lambda _: 0.0, harmless, **asked)
    assert run.chosen == ["thin"] and "cost" in run.found.plan.groups["thin"].reason
    assert all("thin" in point.fp16_groups for point in run.found.curve)
    pin = {"thin": PlannedGroup(precision="int8", reason="pinned")}
    assert sweep(lambda _: 0.0, harmless, pinned=pin, **asked).chosen == []
    beyond = Limits(fp16_groups=0)
    assert sweep(lambda _: 0.0, harmless, limits=beyond, **asked).chosen == []


def test_the_curve_goes_from_no_group_to_all_of_them() -> None:
    run = sweep(lambda _: 0.0)
    sets = [point.fp16_groups for point in run.found.curve]
    assert len(set(sets)) == len(sets)
    assert {0, len(SIX)} <= {len(x) for x in sets}
    for point in run.found.curve:
        damage = sum(HARM[name] for name in SIX if name not in point.fp16_groups)
        assert point.measures[0].damage == pytest.approx(damage, abs=1e-12)
        assert point.measures[0].limit == LIMIT


def test_sides_are_those_of_everything_whatever_the_pins() -> None:
    sides = {"fp16": 0.001, "weights": 0.002, "activations": 0.003, "int8": 0.004}
    pinned = {"a": PlannedGroup(precision="fp16", reason="pinned")}
    run = sweep(lambda _: 0.0, sides=sides, pinned=pinned)
    found = {side.side: side.measures[0].damage for side in run.found.sides}
    assert list(found) == ["fp16", "weights", "activations", "int8"] and found == sides


# --- limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [Limits(fp16_groups=2), Limits(int8_mac_fraction=0.6)])
def test_no_plan_beyond_the_limits_is_tried_or_verified(limits: Limits) -> None:
    harm = added(dict.fromkeys(SIX, 0.004))  # five in fp16 would do
    run = sweep(lambda fp16: 0.004 * (6 - len(fp16)), harm, limits=limits)
    assert max(len(fp16) for fp16 in run.shown) == 2 == len(run.chosen)
    assert max(len(point.fp16_groups) for point in run.found.curve) == 2
    assert not run.found.result.meets_budget
    first, second = run.found.reasons
    assert "no plan meets the budget" in first and "2 groups" in first
    assert "what stands in the way is budget." in second
    assert ("fp16_groups = 2" in second) == (limits.fp16_groups == 2)
    assert ("int8_mac_fraction = 0.6" in second) == (limits.fp16_groups is None)
    # Three in INT8 do 0.012 of damage, two do 0.008.
    assert "4 groups in fp16, 33.3% of MACs" in second


def test_limits_are_not_blamed_where_without_them_nothing_holds_either() -> None:
    # The search samples are content with everything in INT8, the others with nothing.
    harm: Harm = lambda int8, side, sample: 0.0  # noqa: E731
    run = sweep(lambda _: 0.1, harm, limits=Limits(fp16_groups=2))
    assert "no plan meets the budget" in run.found.reasons[0]
    assert not any("budget.fp16_groups" in reason for reason in run.found.reasons)


def test_pins_are_blamed_where_without_them_the_search_samples_are_content() -> None:
    # The group that hurts is pinned to INT8.
    harm: Harm = lambda int8, side, sample: 0.1 if "a" in int8 else 0.0  # noqa: E731
    pinned = {"a": PlannedGroup(precision="int8", reason="pinned")}
    run = sweep(lambda _: 0.1, harm, pinned=pinned)
    first, second = run.found.reasons
    assert "no plan meets the budget" in first
    assert "what stands in the way is plan.pins: without" in second and "1 groups" in second


# --- a kill -------------------------------------------------------------------------------------


def test_a_second_run_measures_nothing_again(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    first = sweep(lambda fp16: 0.001 if len(fp16) >= 2 else 0.1, journal=journal)
    lines = journal.read_bytes()
    again = sweep(lambda fp16: 0.001 if len(fp16) >= 2 else 0.1, journal=journal)
    assert again.found == first.found and again.assessed == first.assessed
    assert len(again.model.asked) == 4  # the float model, once a sample
    assert journal.read_bytes() == lines


def test_progress_is_told_what_is_going_on() -> None:
    told = list[tuple[str, int, int]]()
    sweep(lambda _: 0.0, progress=lambda what, done, total: told.append((what, done, total)))
    labels = {what for what, _, _ in told}
    assert {"sides of quantization", "plans tried", "verifying the plan"} <= labels
    for label in ("sides of quantization", "verifying the plan"):
        last = [x for x in told if x[0] == label][-1]
        assert last[1] == last[2]
