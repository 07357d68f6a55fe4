"""The work of stage 3: which groups stay in fp16, found by measurement and verified as a whole."""

from __future__ import annotations

from pathlib import Path

from quantflow.artifacts.digest import file_digest
from quantflow.artifacts.journal import Journal
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PlannedGroup, PrecisionPlan
from quantflow.artifacts.ranges_record import Fp16Report, RangesRecord
from quantflow.artifacts.run_directory import JOURNAL
from quantflow.artifacts.sample_set import SampleSet
from quantflow.artifacts.sweep_record import PolicyResult, SweepRecord
from quantflow.graph.bucket import bucket_model
from quantflow.graph.model_io import load_model
from quantflow.sensitivity.policy import plan_of, policy_attention, policy_none, resolve_pins
from quantflow.sensitivity.probe import make_probe
from quantflow.sensitivity.segmented_model import SegmentedModel
from quantflow.sensitivity.sweep import Found, sweep
from quantflow.sensitivity.verification import Verifier
from quantflow.stages.stage import Context


def work(context: Context, folder: Path) -> None:
    """Write `plan.json`, which may be edited, and `sweep.json`."""
    config = context.config
    record = ModelRecord.read(context.folder("00_model") / "model.json")
    islands = Fp16Report.read(context.folder("20_ranges") / "fp16.json").islands
    pinned = resolve_pins(record, config.plan.pins)
    verifier = _verifier(context, record)
    policies = {"none": policy_none(record, pinned), "attention": policy_attention(record, pinned)}
    plans = {name: plan_of(name, groups, islands) for name, groups in policies.items()}
    found: Found | None = None
    if config.plan.policy == "auto":
        found = _sweep(context, folder, record, verifier, pinned, plans["none"])
        plans["auto"] = found.plan
    results = dict[str, PolicyResult]()
    for done, (name, plan) in enumerate(plans.items()):
        context.progress("policies side by side", done, len(plans))
        results[name] = found.result if found and name == "auto" else verifier.run(plan)
    context.progress("policies side by side", len(plans), len(plans))
    plan = plans[config.plan.policy]
    plan.write(folder / "plan.json")
    SweepRecord(
        policy=plan.policy,
        metric=config.plan.metric,
        search_samples=_search_samples(context) if found else 0,
        verification_samples=len(verifier.samples),
        budget=config.budget.cosine_mean,
        scores=found.scores if found else (),
        curve=found.curve if found else (),
        policies=tuple(results.values()),
        verified=results[plan.policy].meets_budget,
        plan_digest=file_digest(folder / "plan.json"),
        reasons=_reasons(found, results[plan.policy], config.budget.cosine_mean),
    ).write(folder / "sweep.json")


def _verifier(context: Context, record: ModelRecord) -> Verifier:
    dims = context.config.target.buckets[0]
    return Verifier(
        model=bucket_model(load_model(context.folder("00_model") / "model.onnx"), dims),
        dims=dims,
        record=record,
        ranges=RangesRecord.read(context.folder("20_ranges") / "ranges.json"),
        samples=SampleSet(context.folder("10_set") / "heldout"),
        config=context.config,
    )


def _sweep(
    context: Context,
    folder: Path,
    record: ModelRecord,
    verifier: Verifier,
    pinned: dict[str, PlannedGroup],
    everything_int8: PrecisionPlan,
) -> Found:
    config = context.config
    # Pins to fp16 count in the search as given sets, so factors are wanted for all groups.
    unpinned = everything_int8.model_copy(update={"groups": policy_none(record, {})})
    model = SegmentedModel(
        verifier.model,
        record,
        verifier.factors(unpinned),
        fp19=config.target.fp19_dequant,
        runtime=config.runtime,
    )
    samples = SampleSet(context.folder("10_set") / "calibration")
    probe = make_probe(
        model,
        samples.first(_search_samples(context)),
        record,
        verifier.dims,
        tokens=config.task.token_input if config.task else None,
        folder=folder,
    )
    return sweep(
        model,
        probe,
        verifier,
        pinned,
        everything_int8.islands,
        config,
        Journal(folder / JOURNAL),
        context.progress,
    )


def _search_samples(context: Context) -> int:
    available = len(SampleSet(context.folder("10_set") / "calibration"))
    return min(context.config.plan.samples, available)


def _reasons(found: Found | None, result: PolicyResult, budget: float) -> tuple[str, ...]:
    if found is not None:
        return found.reasons
    if result.meets_budget:
        return ()
    return (
        f"policy {result.policy} misses the budget: mean cosine {result.cosine_mean:.6f}, "
        f"budget.cosine_mean is {budget}; policy auto searches for a plan that meets it",
    )
