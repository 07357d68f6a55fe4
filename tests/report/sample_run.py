"""A small run directory made of records written by hand: two layers on one tensor, a head."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quantflow import __version__
from quantflow.artifacts.comparison import (
    Comparison,
    Fidelity,
    LayerError,
    Summary,
    SummaryDeploy,
    SummaryFidelity,
    SummaryGate,
    SummaryOm,
    SummaryPlan,
    TaskScore,
)
from quantflow.artifacts.coverage_record import CoverageReport, CoverageRow
from quantflow.artifacts.diagnosis_record import (
    Cause,
    DiagnosisRecord,
    Experiment,
    GroupDamage,
    Share,
)
from quantflow.artifacts.digest import value_digest
from quantflow.artifacts.drift_record import DriftReport
from quantflow.artifacts.export_record import (
    BucketFiles,
    ExportRecord,
    LayerFactors,
    LayerParity,
    ParityReport,
)
from quantflow.artifacts.hygiene_record import Finding as HygieneFinding
from quantflow.artifacts.hygiene_record import HygieneReport, SetHygiene
from quantflow.artifacts.model_record import Group, Layer, ModelRecord, PaddedTensor, TensorInfo
from quantflow.artifacts.om_record import Conversion, Finding, OmRecord
from quantflow.artifacts.optimize_record import OptimizeRecord, Pass, SmoothedTensor
from quantflow.artifacts.plan import PlannedGroup, PrecisionPlan
from quantflow.artifacts.provenance import (
    PROVENANCE,
    Made,
    Provenance,
)
from quantflow.artifacts.ranges_record import (
    ClippingReport,
    ClippingRow,
    Fp16Report,
    Fp16Tensor,
    Island,
    NonFinite,
    RangesRecord,
    Split,
    TensorRange,
)
from quantflow.artifacts.record import Record, Verdict
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.artifacts.sample_set import SampleInfo, SetRecord
from quantflow.artifacts.sweep_record import (
    CurvePoint,
    Effect,
    GroupScore,
    Measure,
    PolicyResult,
    SideResult,
    SweepRecord,
)
from quantflow.ranges.channel_file import save_channel_absmax
from quantflow.ranges.grid import observe
from quantflow.ranges.histogram_file import save_histograms
from quantflow.report.artifacts import FOLDERS


def model() -> ModelRecord:
    def layer(name: str, group: str, tensor: str, macs: int, reason: str = "") -> Layer:
        return Layer(
            name=name,
            node=name,
            op_type="MatMul",
            role="qkv" if group == "block.qk" else "classifier",
            group=group,
            input=tensor,
            weight=f"{name}.weight",
            bias=None,
            bias_node=None,
            output=f"{name}_out",
            macs=macs,
            float_reason=reason,
        )

    return ModelRecord(
        opset=18,
        inputs=(TensorInfo(name="x", dtype="float32", shape=("batch", 4)),),
        outputs=(TensorInfo(name="y", dtype="float32", shape=("batch", 2)),),
        layers=(
            layer("block.query", "block.qk", "x", 1000),
            layer("block.key", "block.qk", "x", 1000),
            layer("head", "head", "h", 2000),
            layer("odd", "", "h", 500, "transposed weight"),
        ),
        groups=(
            Group(
                name="block.qk",
                tensor="x",
                role="qkv",
                layers=("block.query", "block.key"),
                macs=2000,
            ),
            Group(name="head", tensor="h", role="classifier", layers=("head",), macs=2000),
        ),
        padding=(PaddedTensor(tensor="x", layout="none"), PaddedTensor(tensor="h", layout="none")),
        origin="mine:build",
    )


def sample_set(name: str) -> SetRecord:
    samples = tuple(
        SampleInfo(id=f"{name}[{i}]", digest=f"{i:064d}", preview=f"text {i}") for i in range(3)
    )
    return SetRecord(
        name=name,
        source="candidates: npz data.npz, seed 0",
        inputs={"x": "float32"},
        samples=samples,
        padding_fraction=None,
        duplicates=1,
    )


def hygiene(verdict: Verdict = "pass") -> HygieneReport:
    """Two of three calibration samples are the same."""
    finding = HygieneFinding(
        kind="exact-duplicates",
        set="calibration",
        count=1,
        samples=("calibration[0]", "calibration[2]"),
        verdict=verdict,
        text="1 of 3 calibration samples repeat others",
    )
    one = SetHygiene(
        set="calibration",
        samples=3,
        unfit=0,
        different=2,
        families=2,
        effective=1.8,
        near_effective=1.8,
    )
    return HygieneReport(verdict=verdict, findings=(finding,), sets=(one,))


def drift(verdict: str = "pass") -> DriftReport:
    """`text.length` is off by five noise floors, unless all is well; a random draw was worse."""

    def feature(name: str, effect: float) -> dict[str, object]:
        return {
            "feature": name,
            "test": "ks",
            "distance": 0.1 * effect,
            "noise_floor": 0.1,
            "effect": effect,
            "p_value": 0.01,
            **{"calibration_median": 31.5, "deployment_median": 80.25, "shift": -1.25},
            **{"stability_index": 0.5, "outside_fraction": 0.125},
            "verdict": verdict if effect > 1.5 else "pass",
            "examples": ["calibration[2]", "calibration[0]"],
        }

    classifier = {"auc": 0.55, "low": 0.45, "high": 0.65}
    worst = 1.0 if verdict == "pass" else 5.0
    reasons = () if verdict == "pass" else ("text.length differs",)
    return DriftReport.model_validate(
        {
            "verdict": verdict,
            "reasons": reasons,
            "selection": "match",
            "counts": {
                **{"candidates": 9, "calibration": 3, "deployment": 8},
                **{"calibration_effective": 3.0, "deployment_effective": 8.0},
                **{"calibration_duplicates": 0, "evaluation_overlap": 0},
            },
            "warn_above": 1.5,
            "fail_above": 2.25,
            "features": [feature("text.length", worst), feature("text.digits", 0.5)],
            "classifier": classifier,
            "power": {"share": 0.25, "shift": 0.65},
            "before": {
                "verdict": "fail",
                "reasons": ["text.length differs"],
                "features": [feature("text.length", 7.0)],
                "classifier": {**classifier, "auc": 0.9, "low": 0.8, "high": 0.95},
            },
        }
    )


def coverage(verdict: str = "pass", layers: int = 0) -> CoverageReport:
    """`head` leaves the calibrated range by half, unless all is well; `layers` more do the same."""

    def row(group: str, share: float, p_value: float, verdict: str) -> CoverageRow:
        return CoverageRow.model_validate(
            {
                "tensor": {"block.qk": "x", "head": "h"}.get(group, group),
                "group": group,
                "outside_fraction": share / 100,
                "clipped_fraction": 0.001,
                "samples_outside_fraction": share,
                "expected_fraction": 0.05,
                "p_value": p_value,
                "reach": 1.5 if share else 1.0,
                "worst_samples": ["heldout[1]"] if share else [],
                "verdict": verdict,
            }
        )

    bad = ["head", *(f"layer.{i}" for i in range(layers))] if verdict != "pass" else []
    rows = [row("block.qk", 0.0, 1.0, "pass"), *(row(name, 0.5, 1e-5, verdict) for name in bad)]
    reasons = [f"{name}: 50% of the deployment samples leave the range" for name in bad]
    return CoverageReport.model_validate(
        {
            "verdict": verdict,
            "reasons": reasons,
            "calibration_samples": 3,
            "heldout_samples": 3,
            "rows": [x.model_dump() for x in rows],
        }
    )


def effect(value: float, damage: float) -> Effect:
    """Its interval reaches from half of the damage to twice as much."""
    return Effect(value=value, damage=damage, low=0.5 * damage, high=2 * damage)


def cosine_measure(mean: float, limit: float | None = 1 - 0.99) -> Measure:
    """With an interval of the mean from 0.002 below it to 0.001 above it."""
    damage = 1 - mean
    return Measure(
        metric="cosine",
        value=mean,
        damage=damage,
        low=damage - 0.001,
        high=damage + 0.002,
        limit=limit,
    )


def perplexity_measure(value: float, limit: float | None = math.log(1.06)) -> Measure:
    """Against 20 of the float model; the interval is from a perplexity 0.5 lower to 1 higher."""
    low, middle, high = (math.log(x / 20) for x in (value - 0.5, value, value + 1))
    return Measure(metric="perplexity", value=value, damage=middle, low=low, high=high, limit=limit)


def sweep(*, verified: bool = True) -> SweepRecord:
    """The head hurts most and is in fp16; the plan is `plan()`."""

    def score(group: str, role: str, damage: float, among: float, tied: bool) -> GroupScore:
        return GroupScore.model_validate(
            {
                "group": group,
                "role": role,
                "mac_fraction": 0.4444,
                "samples": 3,
                "one_in": effect(1 - damage, damage),
                "one_out": effect(0.975 + among, among),
                "weights": 0.1 * damage,
                "activations": 0.8 * damage,
                "rank_low": 1,
                "rank_high": 2,
                "tied": tied,
            }
        )

    def point(groups: tuple[str, ...], share: float, mean: float, step: str) -> CurvePoint:
        return CurvePoint(
            fp16_groups=groups,
            int8_mac_fraction=share,
            cost=1 - share / 2,
            measures=(cosine_measure(mean),),
            step=step,
        )

    def result(policy: str, groups: int, share: float, mean: float, meets: bool) -> PolicyResult:
        return PolicyResult(
            policy=policy,
            fp16_groups=groups,
            int8_mac_fraction=share,
            boundaries=3,
            cost=1 - share / 2,
            measures=(cosine_measure(mean),),
            cosine_min=mean - 0.01,
            meets_budget=meets,
        )

    def side(name: str, mean: float) -> SideResult:
        return SideResult.model_validate({"side": name, "measures": (cosine_measure(mean),)})

    return SweepRecord(
        policy="auto",
        metric="cosine",
        search_samples=3,
        verification_samples=3,
        scores=(
            score("head", "classifier", 0.02, 0.019, tied=True),
            score("block.qk", "qkv", 0.004, 0.0055, tied=False),
        ),
        sides_samples=16,
        rank_stability=0.875,
        in_out_correlation=0.5,
        curve=(
            point((), 0.8888, 0.975, "curve"),
            point(("head",), 0.4444, 0.9951, "curve"),
            point(("block.qk", "head"), 0.0, 1.0, "curve"),
            point(("block.qk",), 0.4444, 0.98, "backward"),
        ),
        policies=(
            result("none", 0, 0.8888, 0.974, False),
            result("attention", 1, 0.4444, 0.981, False),
            result("auto", 1, 0.4444, 0.9946 if verified else 0.985, verified),
        ),
        sides=(
            side("fp16", 0.9999),
            side("weights", 0.996),
            side("activations", 0.98),
            side("int8", 0.974),
        ),
        verified=verified,
        plan_digest=hashlib.sha256(plan().to_json().encode()).hexdigest(),
        reasons=() if verified else ("no plan meets the budget",),
    )


def perplexity_sweep() -> SweepRecord:
    """As `sweep`, of a language model: 20 in fp32, a rise of 6% allowed, the cosine beside it."""

    def both(value: float) -> tuple[Measure, ...]:
        return perplexity_measure(value), cosine_measure(0.98, limit=None)

    found = sweep()
    rises = (0.5, 0.1)
    scores = tuple(
        score.model_copy(
            update={
                "one_in": effect(20 * (1 + rise), math.log1p(rise)),
                "one_out": effect(21.0, math.log1p(rise / 2)),
                "weights": None,
                "activations": None if score.group == "head" else math.log1p(rise),
                "samples": samples,
                "rank_low": place,
                "rank_high": place,
                "tied": False,
            }
        )
        for place, (score, rise, samples) in enumerate(
            zip(found.scores, rises, (64, 16), strict=True), 1
        )
    )
    values = {"none": 30.0, "attention": 24.0, "auto": 21.0}
    return found.model_copy(
        update={
            "metric": "perplexity",
            "least_int8_fraction": 0.75,
            "most_fp16_groups": 3,
            "scores": scores,
            "curve": tuple(
                x.model_copy(update={"measures": both(value)})
                for x, value in zip(found.curve, (30.0, 21.0, 20.0, 26.0), strict=True)
            ),
            "policies": tuple(
                x.model_copy(update={"measures": both(values[x.policy])}) for x in found.policies
            ),
            "sides": tuple(
                x.model_copy(update={"measures": both(value)})
                for x, value in zip(found.sides, (20.0, 22.0, 22.5, 30.0), strict=True)
            ),
        }
    )


def ranges(*nonfinite: NonFinite) -> RangesRecord:
    def entry(tensor: str, high: float, estimator: str) -> TensorRange:
        return TensorRange(
            tensor=tensor, low=-high, high=high, estimator=estimator, symmetric=False
        )

    return RangesRecord(
        ranges=(entry("x", 1.0, "minmax"), entry("h", 4.0, "kl")), nonfinite=nonfinite
    )


def clipping() -> ClippingReport:
    def row(
        tensor: str,
        split: str,
        candidate: str,
        chosen: bool,
        high: float,
        absmax: float,
        sqnr: float,
    ) -> ClippingRow:
        clipped = absmax > high
        return ClippingRow.model_validate(
            {
                "tensor": tensor,
                "group": "block.qk" if tensor == "x" else "head",
                "split": split,
                "candidate": candidate,
                "chosen": chosen,
                "low": -high,
                "high": high,
                "absmax": absmax,
                "clipping_ratio": absmax / high,
                "clipped_low_fraction": 0.0,
                "clipped_high_fraction": 0.00005 if clipped else 0.0,
                "energy_lost_fraction": 0.002 if clipped else 0.0,
                "sqnr_db": sqnr,
                "near_threshold_fraction": 0.0,
                "worst_samples": ["calibration[0]"],
                "flag": "clips a lot" if absmax / high > 10 else "",
            }
        )

    return ClippingReport(
        rows=(
            row("x", "calibration", "minmax", True, 1.0, 1.0, 40.0),
            row("x", "calibration", "kl", False, 0.5, 1.0, 20.0),
            row("x", "heldout", "minmax", True, 1.0, 1.1, 38.0),
            row("x", "heldout", "kl", False, 0.5, 1.1, 19.0),
            row("h", "calibration", "kl", True, 4.0, 60.0, 30.0),
            row("h", "heldout", "kl", True, 4.0, 20.0, 33.0),
        )
    )


def fp16() -> Fp16Report:
    def tensor(name: str, absmax: float, flushed: float) -> Fp16Tensor:
        return Fp16Tensor(
            tensor=name,
            node=f"{name}_node",
            op_type="Pow",
            absmax=absmax,
            overflow=absmax > 65504,
            subnormal_fraction=0.0,
            flushed_fraction=flushed,
        )

    return Fp16Report(
        samples=3,
        tensors=(tensor("fine", 10.0, 0.0), tensor("tiny", 1.0, 0.25), tensor("square", 1e6, 0.0)),
        islands=(Island(node="square_node", op_type="Pow", tensor="square", absmax=1e6),),
    )


def plan() -> PrecisionPlan:
    return PrecisionPlan(
        policy="auto",
        groups={
            "block.qk": PlannedGroup(precision="int8"),
            "head": PlannedGroup(precision="fp16", reason="pinned"),
        },
        islands=fp16().islands,
    )


def export() -> ExportRecord:
    def int8(name: str) -> LayerFactors:
        return LayerFactors(
            layer=name,
            group="block.qk",
            precision="int8",
            scale_d=1 / 127,
            offset_d=-1,
            scale_w=(0.01, 0.02),
        )

    bucket = BucketFiles(
        name="batch1",
        dims={"batch": 1},
        input_shapes={"x": (1, 4)},
        deploy="batch1/deploy.onnx",
        float_twin="batch1/float.onnx",
        qdq="batch1/qdq.onnx",
        keep_dtype="batch1/keep_dtype.cfg",
        op_types={"AscendQuant": 1, "AscendDequant": 2, "MatMul": 3},
    )
    return ExportRecord(
        opset=18,
        int8_mac_fraction=0.4444,
        boundaries=3,
        layers=(
            int8("block.query"),
            int8("block.key"),
            LayerFactors(layer="head", group="head", precision="fp16", reason="pinned"),
        ),
        buckets=(bucket,),
        amct_record="record.txt",
        chip="Ascend310P3",
    )


def parity(verdict: str = "pass") -> ParityReport:
    rows = [
        LayerParity(
            layer="block.query", cosine=0.9999999, int32_exact=True, int8_equal_fraction=1.0
        ),
        LayerParity(
            layer="block.key",
            cosine=0.9 if verdict == "fail" else 1.0,
            int32_exact=verdict != "fail",
            int8_equal_fraction=1.0,
        ),
    ]
    least = min(row.cosine for row in rows)
    return ParityReport.model_validate(
        {"verdict": verdict, "cosine_min": least, "layers": [row.model_dump() for row in rows]}
    )


def om(status: str = "not-converted") -> OmRecord:
    return OmRecord.model_validate(
        {
            "status": status,
            "findings": [
                Finding(level="warning", what="CANN's environment is not set", fix="source it")
            ],
            "conversions": [
                Conversion.model_validate(
                    {
                        "name": "batch1",
                        "bucket": "batch1",
                        "status": status,
                        "reason": "" if status == "converted" else "atc not found",
                        "command": ("atc", "--framework=5", "--soc_version=Ascend310P3"),
                        "om": "batch1.om" if status == "converted" else None,
                    }
                )
            ],
        }
    )


def comparison(verdict: str = "pass", reasons: tuple[str, ...] = ()) -> Comparison:
    def close(mean: float, least: float) -> Fidelity:
        return Fidelity(
            cosine_mean=mean,
            cosine_min=least,
            cosine_low=mean - 0.001,
            cosine_high=mean,
            max_abs_error=0.125,
            worst_samples=("evaluation[2]", "evaluation[0]"),
        )

    def score(value: float) -> TaskScore:
        return TaskScore(value=value, low=value - 0.05, high=value + 0.05)

    return Comparison.model_validate(
        {
            "bucket": "batch1",
            "samples": 3,
            "fidelity": {
                "fp16": close(0.9999991, 0.9999982),
                "fp16_plain": close(0.5, 0.25),
                "int8": close(0.9946, 0.9801),
                "qdq": close(0.9947, 0.9802),
            },
            "fidelity_gap": 0.0001,
            "flip_noise": 0.0003,
            "task": {"fp32": score(0.508), "fp16": score(0.5079), "int8": score(0.501)},
            "task_metric": "spearman",
            "layers": [
                LayerError(
                    layer="block.query",
                    group="block.qk",
                    sqnr_db=35.0,
                    own_sqnr_db=35.0,
                    sample_sqnr_db=(36.5, 9.25, 34.0),
                ),
                LayerError(
                    layer="block.key",
                    group="block.qk",
                    sqnr_db=12.0,
                    own_sqnr_db=12.5,
                    sample_sqnr_db=(12.5, 12.0, math.nan),
                ),
                LayerError(layer="head", group="head", sqnr_db=20.0, own_sqnr_db=22.0),
            ],
            "layer_samples": ["evaluation[0]", "evaluation[1]", "evaluation[2]"],
            "measures": {
                "cosine": {
                    "fp16": cosine_measure(0.9999991),
                    "int8": cosine_measure(0.9946),
                }
            },
            "verdict": verdict,
            "reasons": reasons,
        }
    )


def provenance(outputs: dict[str, str] | None = None) -> Provenance:
    """The comparison was made with another budget than all before it."""
    digests = outputs or {}

    def made(stage: str, limit: float) -> tuple[Made, dict[str, object]]:
        configuration: dict[str, object] = {
            "run": {"seed": 7},
            "budget": {"cosine_mean": limit, "task_drop": None},
        }
        of_it = Made(
            outputs=digests.get(stage, ""),
            configuration=value_digest(configuration),
            versions={"python": "3.11.9", "numpy": "2.1.0", "onnxruntime": "1.32.0"},
            platform="Linux x86_64",
            session={"provider": "CPUExecutionProvider", "intra_op_num_threads": "2"},
            seed=7,
        )
        return of_it, configuration

    found = Provenance()
    for stage in FOLDERS:
        found = found.with_stage(stage, *made(stage, 0.98 if stage == "45_compare" else 0.99))
    return found


def summary(verdict: str = "pass") -> Summary:
    return Summary.model_validate(
        {
            "verdict": verdict,
            "reasons": [],
            "fidelity": {
                "fp16": SummaryFidelity(cosine_mean=0.9999991, cosine_min=0.9999982),
                "int8": SummaryFidelity(cosine_mean=0.9946, cosine_min=0.9801),
            },
            "int8_mac_fraction": 0.4444,
            "fp16_groups": ["head"],
            "fp32_islands": ["square_node"],
            "task": {},
            "deploy": SummaryDeploy(op_types={"MatMul": 3}, parity_cosine=1.0, fidelity_gap=0.0001),
            "om": SummaryOm(status="not-converted"),
            "drift": SummaryGate(verdict="pass"),
            "coverage": SummaryGate(verdict="pass"),
            "plan": SummaryPlan(policy="auto", verified=True),
        }
    )


def values() -> dict[Split, dict[str, NDArray[np.float32]]]:
    """Values of `x` and `h`, three channels each; channel 1 of `h` reaches 60."""
    rng = np.random.default_rng(0)
    found: dict[Split, dict[str, NDArray[np.float32]]] = {"calibration": {}, "heldout": {}}
    for split, (x_top, h_top) in (("calibration", (1.0, 60.0)), ("heldout", (1.1, 20.0))):
        x, h = (rng.uniform(-1, 1, (50, 3)).astype(np.float32) for _ in range(2))
        x[0, 0], h[0, 1] = x_top, h_top
        found[split] |= {"x": x, "h": h}
    return found


def write_values(directory: Path) -> None:
    """The files of stage 2 that are no records."""
    histograms = {s: {n: observe(v) for n, v in named.items()} for s, named in values().items()}
    save_histograms(directory / "histograms.safetensors", histograms)
    absmax = {s: {n: np.abs(v).max(0) for n, v in named.items()} for s, named in values().items()}
    save_channel_absmax(directory / "channel_absmax.safetensors", absmax)


def optimize() -> OptimizeRecord:
    """Smoothing that helped, and rounding that did not."""
    return OptimizeRecord(
        passes=(
            Pass(name="smoothing", kept=True, error_before=0.02, error_after=0.005),
            Pass(name="rounding", kept=False, error_before=0.005, error_after=0.006),
        ),
        metric="cosine",
        samples=32,
        float_difference=3e-7,
        tensors=(
            SmoothedTensor(
                tensor="x", group="block.query+key", how="folded", scale="strength 0.5",
                error_before=0.5, error_after=0.1,
            ),
        ),
    )  # fmt: skip


def write_stage(
    run: RunDirectory, folder: str, reads: tuple[str, ...], records: dict[str, Record]
) -> None:
    """Write a stage's records with a manifest that names the stages and files it was made from."""
    manifests = {name: run.manifest(name) for name in reads if "/" not in name}
    inputs = {name: manifest.digest for name, manifest in manifests.items() if manifest}
    files = {name: run.root / name for name in reads if "/" in name}
    inputs |= {name: hashlib.sha256(x.read_bytes()).hexdigest() for name, x in files.items()}
    with run.writing(folder, __version__, inputs) as directory:
        for name, record in records.items():
            record.write(directory / name)
        if folder == "20_ranges":
            write_values(directory)


def write_run(
    root: Path,
    *,
    drift_report: DriftReport | None = None,
    ranges_record: RangesRecord | None = None,
    coverage_report: CoverageReport | None = None,
    sweep_record: SweepRecord | None = None,
    parity_report: ParityReport | None = None,
    comparison_record: Comparison | None = None,
    om_record: OmRecord | None = None,
) -> RunDirectory:
    """A run directory in which every stage has run."""
    run = RunDirectory(root)
    write_stage(run, "00_model", (), {"model.json": model()})
    sets = {f"{n}/set.json": sample_set(n) for n in ("calibration", "heldout", "evaluation")}
    records = {**sets, "drift.json": drift_report or drift(), "hygiene.json": hygiene()}
    write_stage(run, "10_set", (), records)
    write_stage(
        run,
        "20_ranges",
        ("00_model", "10_set"),
        {
            "ranges.json": ranges_record or ranges(),
            "clipping.json": clipping(),
            "coverage.json": coverage_report or coverage(),
            "fp16.json": fp16(),
        },
    )
    write_stage(
        run,
        "25_optimize",
        ("00_model", "10_set", "20_ranges"),
        {"optimize.json": optimize()},
    )
    write_stage(
        run,
        "30_sweep",
        ("00_model", "10_set", "20_ranges", "25_optimize"),
        {"plan.json": plan(), "sweep.json": sweep_record or sweep()},
    )
    write_stage(
        run,
        "40_onnx",
        ("00_model", "20_ranges", "30_sweep/plan.json"),
        {
            "plan.json": plan(),
            "export.json": export(),
            "parity.json": parity_report or parity(),
        },
    )
    write_stage(
        run,
        "45_compare",
        ("00_model", "10_set", "40_onnx"),
        {"comparison.json": comparison_record or comparison()},
    )
    write_stage(run, "50_om", ("40_onnx",), {"om.json": om_record or om()})
    summary().write(root / "summary.json")
    manifests = {name: run.manifest(name) for name in FOLDERS}
    provenance({name: x.digest for name, x in manifests.items() if x}).write(root / PROVENANCE)
    run.record_time("00_model", 1.25)
    return run


def diagnosis() -> DiagnosisRecord:
    """Deployment's ranges remove 80% of the loss."""

    def one(name: str, cause: Cause | None, mean: float, share: float | None) -> Experiment:
        removed = None if share is None else Share(value=share, low=share - 0.1, high=share + 0.1)
        measures = (cosine_measure(mean),)
        return Experiment(name=name, cause=cause, measures=measures, removed=removed)

    return DiagnosisRecord(
        samples=3,
        metric="cosine",
        finding="data",
        sentence="Data: ranges from deployment samples remove 80% (70 to 90) of the loss.",
        next_step="quantflow build-set --set set.selection=match",
        also=("activations",),
        fp16_share=Share(value=0.01, low=0.0, high=0.02),
        experiments=(
            one("nothing in INT8", None, 0.9999, None),
            one("INT8 as planned", None, 0.98, None),
            one("ranges of deployment", "data", 0.9959, 0.8),
            one("activations in float", "activations", 0.9979, 0.9),
        ),
        groups=(GroupDamage(group="head", damage=0.02),),
    )


def write_diagnosis(run: RunDirectory) -> None:
    """Diagnose the run."""
    reads = ("00_model", "10_set", "20_ranges", "25_optimize", "30_sweep", "30_sweep/plan.json")
    write_stage(run, "46_diagnosis", reads, {"diagnosis.json": diagnosis()})


def edit_plan(run: RunDirectory) -> None:
    """What a person may do after stage 3: the head is to be INT8 as well."""
    groups = {**plan().groups, "head": PlannedGroup(precision="int8")}
    plan().model_copy(update={"groups": groups}).write(run.folder("30_sweep") / "plan.json")
