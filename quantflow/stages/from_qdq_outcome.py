"""What became of a quantized file: agreement with it, and what is not INT8 and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx_ir as ir

from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.from_qdq_record import FloatLayer, FromQdqRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.evaluation.file_agreement import agreement, judge
from quantflow.graph.model_io import load_model
from quantflow.stages.from_qdq_job import Job
from quantflow.target.lint import lint
from quantflow.target.op_table import parser_span


def outcome(job: Job, export: ExportRecord, plan: PrecisionPlan) -> FromQdqRecord:
    """Run the deploy models against the file, and say what became of it."""
    export_dir, target = job.run.folder("40_onnx"), job.loaded.config.target
    rows, missed = agreement(
        job.loaded.config,
        job.source,
        job.model,
        job.record,
        export_dir,
        export.buckets,
        plan,
        job.samples,
    )
    verdict, reasons = judge(rows, given=bool(job.samples))
    deploys = [load_model(export_dir / bucket.deploy) for bucket in export.buckets]
    findings = [x for model in deploys for x in lint(model, target.cann)]
    said = (f"{x.where}: {x.what}" if x.where else x.what for x in findings)
    return FromQdqRecord(
        source=job.source.name,
        refused_before=_refused(load_model(job.source)),
        refused_after=_refused(*deploys),
        warnings=tuple(dict.fromkeys(said)),
        int8_layers=sum(entry.precision == "int8" for entry in export.layers),
        int8_mac_fraction=export.int8_mac_fraction,
        float_layers=tuple(
            FloatLayer(layer=x.layer, precision=x.precision, reason=x.reason)
            for x in export.layers
            if x.precision != "int8"
        ),
        notes=(*job.record.notes, *_unmeasured(job), *missed),
        inputs="none" if not rows else "given" if job.samples else "random",
        agreement=tuple(rows),
        verdict=verdict,
        reasons=tuple(reasons),
    )


def _unmeasured(job: Job) -> Iterator[str]:
    if not job.samples:
        yield "which values leave fp16 was not measured: give --samples"


def _refused(*models: ir.Model) -> dict[str, int]:
    """Nodes that atc has no parser for at any opset, by op type."""
    nodes = (node for model in models for node in model.graph.all_nodes())
    refused = (x.op_type for x in nodes if parser_span(x.op_type, x.domain) is None)
    return dict(sorted(Counter(refused).items()))
