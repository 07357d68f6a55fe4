"""Verification runs the plan's own deploy model, and is not deceived by broken outputs."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from quantflow.artifacts.journal import Journal
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.sample_set import SampleSet
from quantflow.export.deploy import deploy_model
from quantflow.export.lowering import lower
from quantflow.export.qdq import Side, qdq_model
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.workers import ALONE
from quantflow.sensitivity.ledger import Ledger
from quantflow.sensitivity.verification import Verifier
from quantflow.stages.work_3_sweep import Parts
from tests.export.builders import make_plan, run
from tests.graph.masked_blocks import MASK_NAME
from tests.graph.models import build, rand

from .builders import cosine
from .projects import context_of, encoder_project, run_until, write_project


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = encoder_project(tmp_path_factory.mktemp("encoder"))
    run_until("20_ranges", config)
    return config


def verifier_of(config: Path, *overrides: str, journal: Path | None = None) -> Verifier:
    ledger = Ledger(Journal(journal) if journal else None, ALONE)
    return Parts(context_of(config, *overrides), ledger).verifier


def cosines(config: Path, verifier: Verifier, model: object) -> np.ndarray:
    """Of the held-out samples, one by one, each twice to fill the batch."""
    found = list[float]()
    for sample in SampleSet(config.parent / "run" / "10_set" / "heldout"):
        feeds = {name: np.stack([array, array]) for name, array in sample.items()}
        real = sample[MASK_NAME].astype(bool)
        exact, other = (run(x, feeds)["y"][0][real] for x in (verifier.model, model))  # type: ignore
        found.append(cosine(exact, other))
    return np.array(found)


@pytest.mark.parametrize("fp16", [[], ["n_A0o", "n_F1a"]])
def test_a_plan_is_judged_by_its_lowered_deploy_model(encoder: Path, fp16: list[str]) -> None:
    verifier = verifier_of(encoder)
    plan = make_plan(verifier.record, fp16)
    found = verifier.run(plan)
    deploy = deploy_model(verifier.model, verifier.record, verifier.factors(plan))
    lowered = lower(deploy, fp19=True, emulate_fp16=True, islands=frozenset())
    expected = cosines(encoder, verifier, lowered)
    (measure,) = found.measures
    assert measure.metric == "cosine" and measure.limit == pytest.approx(0.01)
    assert measure.value == pytest.approx(expected.mean(), abs=1e-6)
    assert measure.damage == pytest.approx(1 - expected.mean(), abs=1e-6)
    assert measure.low <= measure.damage <= measure.high
    assert found.cosine_min == pytest.approx(expected.min(), abs=1e-6)
    assert found.fp16_groups == len(fp16) and found.meets_budget
    macs = {group.name: group.macs for group in verifier.record.groups}
    share = 1 - sum(macs[name] for name in fp16) / sum(macs.values())
    assert found.int8_mac_fraction == pytest.approx(share)
    assert found.cost == verifier.cost.of(fp16)


@pytest.mark.parametrize("side", ["weights", "activations"])
def test_one_side_is_fake_quantized_in_an_otherwise_float_model(encoder: Path, side: Side) -> None:
    verifier = verifier_of(encoder)
    plan = make_plan(verifier.record, ["n_A0o"])
    (measure,) = verifier.one_side(plan, side)
    twin = qdq_model(verifier.model, verifier.record, verifier.factors(plan), side)
    expected = cosines(encoder, verifier, twin)
    assert measure.damage == pytest.approx(1 - expected.mean(), abs=1e-6)
    assert measure.damage > 1e-6


def test_activations_alone_leave_the_weights_of_convolutions_as_they_are(tmp_path: Path) -> None:
    # One scale for a whole kernel would lose the weights of 0.01 beside the one of 1.
    w0, w1 = rand(8, 3, 3, 3, scale=0.01), rand(4, 8, 1, 1, seed=1, scale=0.01)
    w0[0, 0, 0, 0] = w1[0, 0] = 1
    model = build(
        "(float[batch,3,6,6] x) => (float[batch,4,4,4] y) "
        "{ a = Conv(x, w0) r = Relu(a) y = Conv(r, w1) }",
        {"w0": w0, "w1": w1},
    )
    config = write_project(tmp_path, model, {"x": rand(40, 3, 6, 6, seed=2)}, {"batch": 2})
    run_until("20_ranges", config)
    verifier = verifier_of(config)
    plan = make_plan(verifier.record)
    (measure,) = verifier.one_side(plan, "activations")
    scales = [(entry.scale_d, entry.offset_d) for entry in verifier.factors(plan)]

    def convolved(x: torch.Tensor, weight: np.ndarray, layer: int, exact: bool) -> torch.Tensor:
        scale, offset = scales[layer]
        assert scale is not None and offset is not None
        steps = torch.clamp(torch.round(x / scale) + offset, -128, 127) - offset
        kernel = torch.from_numpy(weight).double()
        return torch.nn.functional.conv2d(x if exact else steps * scale, kernel)

    damage = list[float]()
    for sample in SampleSet(config.parent / "run" / "10_set" / "heldout"):
        outputs = list[np.ndarray]()
        for exact in (True, False):
            hidden = convolved(torch.from_numpy(sample["x"]).double(), w0, 0, exact)
            outputs.append(convolved(torch.relu(hidden), w1, 1, exact).numpy())
        damage.append(1 - cosine(*outputs))
    assert measure.damage == pytest.approx(np.mean(damage), rel=0.2)


def test_further_limits_of_the_budget_hold_whatever_the_accuracy(encoder: Path) -> None:
    for limit in ("budget.fp16_groups=1", "budget.int8_mac_fraction=0.95"):
        verifier = verifier_of(encoder, limit)
        assert verifier.run(make_plan(verifier.record)).meets_budget
        found = verifier.run(make_plan(verifier.record, ["n_A0o", "n_F1a"]))
        assert found.measures[0].meets and not found.meets_budget


def test_what_the_budget_asks_comes_first_and_the_cosine_is_always_there(encoder: Path) -> None:
    task = 'task={kind="agreement"}'
    found = verifier_of(encoder, task, "budget.agreement_fraction=0.5")
    measures = found.run(make_plan(found.record)).measures
    assert [(x.metric, x.limit) for x in measures] == [("agreement", 0.5), ("cosine", None)]
    assert measures[0].damage == pytest.approx(1 - measures[0].value) and measures[0].damage >= 0
    both = verifier_of(encoder, task, "budget.agreement_fraction=0.5", "budget.cosine_mean=0.9")
    measures = both.run(make_plan(both.record)).measures
    assert {x.metric: x.limit for x in measures} == {"agreement": 0.5, "cosine": pytest.approx(0.1)}


def test_a_plan_that_was_run_before_a_kill_is_not_run_again(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = verifier_of(encoder, journal=tmp_path / "j")
    plan = make_plan(first.record, ["n_A0o"])
    expected, side = first.run(plan), first.one_side(plan, "weights")
    again = verifier_of(encoder, journal=tmp_path / "j")

    def never(*_: object) -> None:
        raise AssertionError("it was run before")

    monkeypatch.setattr(OnnxRuntimeRunner, "run", never)
    named = plan.model_copy(update={"policy": "auto"})
    assert again.run(named) == expected.model_copy(update={"policy": "auto"})
    assert again.one_side(plan, "weights") == side


def test_nan_meets_no_budget_and_prints_no_warning(tmp_path: Path) -> None:
    model = build(
        "(float[batch,8] x) => (float[batch,8] y) { a = MatMul(x, w) b = Mul(a, gain) "
        "c = Mul(b, b) d = ReduceSum(c, last) y = Div(c, d) }",
        {"w": rand(8, 8), "gain": np.float32(1e4), "last": np.int64([1])},
    )
    config = write_project(tmp_path, model, {"x": rand(40, 8)}, {"batch": 2})
    run_until("20_ranges", config)
    verifier = verifier_of(config, journal=tmp_path / "j")
    plan = make_plan(verifier.record)  # without the islands that the overflow asks for
    assert isinstance(plan, PrecisionPlan) and not plan.islands
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = verifier.run(plan)
    (measure,) = found.measures
    assert np.isnan([measure.value, measure.damage, measure.low, measure.high]).all()
    assert np.isnan(found.cosine_min) and not found.meets_budget
    # NaN is a number like any other to the journal.
    again = verifier_of(config, journal=tmp_path / "j").run(plan)
    assert again.to_json() == found.to_json()
