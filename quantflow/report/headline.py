"""The top of the page: what it is about, and its first figures."""

from __future__ import annotations

from collections.abc import Iterator

from quantflow.report.artifacts import Artifacts
from quantflow.report.comparison_sheets import has_int8
from quantflow.report.sheet import cosine_text, count_text, dims_text, score_text, share_text


def about(artifacts: Artifacts) -> Iterator[str]:
    """What the page is about: model, chip, bucket, samples."""
    if artifacts.model is not None and artifacts.model.origin:
        yield f"model {artifacts.model.origin}"
    if artifacts.export is not None:
        yield from filter(None, [artifacts.export.chip])
        yield f"bucket {dims_text(artifacts.export.buckets[0].dims)}"
    if artifacts.comparison is not None:
        yield f"{count_text(artifacts.comparison.samples)} evaluation samples"


def emulated(artifacts: Artifacts) -> str:
    """Where the figures come from, so that nobody takes them for an NPU's."""
    if artifacts.comparison is None:
        return ""
    converted = artifacts.om is not None and artifacts.om.status == "converted"
    what = "the .om was not run" if converted else "nothing was converted"
    return f"int8 and fp16 figures are emulated on a CPU; {what} or timed on an NPU"


def facts(artifacts: Artifacts) -> Iterator[tuple[str, str, str]]:
    """Label, figure and remark of the figures at the top."""
    comparison = artifacts.comparison
    int8 = "int8" if has_int8(artifacts.export) else "deploy model (no layer INT8)"
    for key, name in (("int8", int8), ("fp16", "fp16")):
        fidelity = comparison.fidelity.get(key) if comparison else None
        if fidelity is not None:
            remark = f"least {cosine_text(fidelity.cosine_min)}"
            yield f"{name} cosine to fp32, emulated", cosine_text(fidelity.cosine_mean), remark
    if comparison is not None and comparison.task:
        scores = comparison.task
        fp16 = f"fp16 {score_text(scores['fp16'].value)}" if "fp16" in scores else ""
        if "int8" in scores:
            figure = score_text(scores["int8"].value)
            yield f"{int8} {comparison.task_metric}, emulated", figure, fp16
    if artifacts.export is not None:
        share = share_text(artifacts.export.int8_mac_fraction, 1)
        yield "MACs in INT8", share, f"{artifacts.export.boundaries} quant and dequant nodes"
    if artifacts.plan is not None:
        groups = f"{len(artifacts.plan.fp16_groups)} of {len(artifacts.plan.groups)} groups in fp16"
        yield "precision plan", artifacts.plan.policy, groups
    if artifacts.parity is not None:
        yield "parity", cosine_text(artifacts.parity.cosine_min), "least cosine of any layer"
    if artifacts.om is not None:
        buckets = sum(x.kind == "int8" for x in artifacts.om.conversions)
        yield "OM", artifacts.om.status, f"{buckets} bucket(s)"
