"""Verification runs the plan's own deploy model, and is not deceived by broken outputs."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.ranges_record import RangesRecord
from quantflow.artifacts.sample_set import SampleSet
from quantflow.export.deploy import deploy_model
from quantflow.export.lowering import lower
from quantflow.graph.bucket import bucket_model
from quantflow.graph.model_io import load_model
from quantflow.sensitivity.verification import Verifier
from tests.export.builders import make_plan, run
from tests.graph.masked_blocks import MASK_NAME
from tests.graph.models import build, rand

from .builders import cosine
from .projects import context_of, encoder_project, read_model, run_until, write_project


def verifier_of(config: Path) -> Verifier:
    folder = config.parent / "run"
    settings = context_of(config).config
    dims = settings.target.buckets[0]
    return Verifier(
        model=bucket_model(load_model(folder / "00_model" / "model.onnx"), dims),
        dims=dims,
        record=read_model(config),
        ranges=RangesRecord.read(folder / "20_ranges" / "ranges.json"),
        samples=SampleSet(folder / "10_set" / "heldout"),
        config=settings,
    )


@pytest.mark.parametrize("fp16", [[], ["n_A0o", "n_F1a"]])
def test_a_plan_is_judged_by_its_lowered_deploy_model(tmp_path: Path, fp16: list[str]) -> None:
    config = encoder_project(tmp_path)
    run_until("20_ranges", config)
    verifier = verifier_of(config)
    plan = make_plan(verifier.record, fp16)
    found = verifier.run(plan)
    deploy = deploy_model(verifier.model, verifier.record, verifier.factors(plan))
    lowered = lower(deploy, fp19=True, emulate_fp16=True, islands=frozenset())
    cosines = list[float]()
    for sample in verifier.samples:  # one by one, each twice to fill the batch
        feeds = {name: np.stack([array, array]) for name, array in sample.items()}
        real = sample[MASK_NAME].astype(bool)
        exact, other = (run(model, feeds)["y"][0][real] for model in (verifier.model, lowered))
        cosines.append(cosine(exact, other))
    assert found.cosine_mean == pytest.approx(float(np.mean(cosines)), abs=1e-6)
    assert found.cosine_min == pytest.approx(min(cosines), abs=1e-6)
    assert found.cosine_low <= found.cosine_mean <= found.cosine_high
    assert found.fp16_groups == len(fp16)


def test_nan_meets_no_budget_and_prints_no_warning(tmp_path: Path) -> None:
    model = build(
        "(float[batch,8] x) => (float[batch,8] y) { a = MatMul(x, w) b = Mul(a, gain) "
        "c = Mul(b, b) d = ReduceSum(c, last) y = Div(c, d) }",
        {"w": rand(8, 8), "gain": np.float32(1e4), "last": np.int64([1])},
    )
    config = write_project(tmp_path, model, {"x": rand(40, 8)}, {"batch": 2})
    run_until("20_ranges", config)
    verifier = verifier_of(config)
    plan = make_plan(verifier.record)  # without the islands that the overflow asks for
    assert isinstance(plan, PrecisionPlan) and not plan.islands
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = verifier.run(plan)
    assert np.isnan(found.cosine_mean) and np.isnan(found.cosine_low)
    assert not found.meets_budget
