"""What sides are made of and compared on: a run's first bucket, and samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.sample_set import SampleSet
from quantflow.config import Config
from quantflow.evaluation.subject import Subject
from quantflow.graph.model_io import load_model
from quantflow.runtime.runner import Feeds
from quantflow.stages.given_samples import read_samples
from quantflow.stages.pipeline import require_current
from quantflow.stages.stage import Context
from quantflow.stages.stage_1_set import STAGE as SET
from quantflow.stages.stage_4_onnx import STAGE as ONNX

_LOGITS = ("perplexity", "agreement")
"""Tasks that read the first output as logits."""


@dataclass(frozen=True, slots=True)
class Ready:
    """What is there before any side is.

    Attributes:
        subject: the first bucket.
        plan: of its export.
        samples: gives the samples anew each time.
        ids: of the samples.
    """

    subject: Subject
    plan: PrecisionPlan
    samples: Callable[[], Iterable[Feeds]]
    ids: Sequence[str]


def make_ready(context: Context, samples: Path | None, limit: int | None) -> Ready:
    """Read the run's export and samples.

    Args:
        context: of the run.
        samples: an .npz file, as `read_samples` takes it; the run's evaluation set without it.
        limit: most samples.

    Raises:
        QuantflowError: QF404, QF405 and QF407 when the run lacks stage 4, or it is not current;
            what `read_samples` raises.
    """
    require_current(context, ONNX)
    subject, plan = _subject(context)
    return Ready(subject, plan, *_samples(context, subject.record, samples, limit))


def _subject(context: Context) -> tuple[Subject, PrecisionPlan]:
    folder = context.folder(ONNX.folder)
    record = ModelRecord.read(context.quantized_model / "model.json")
    bucket = ExportRecord.read(folder / "export.json").buckets[0]
    subject = Subject(
        canonical=load_model(context.quantized_model / "model.onnx"),
        model=load_model(folder / bucket.float_twin),
        record=record,
        bucket=bucket,
        runtime=context.config.runtime,
        logits=_logits(context.config, record),
    )
    return subject, PrecisionPlan.read(folder / "plan.json")


def _logits(config: Config, record: ModelRecord) -> frozenset[str]:
    judged = config.task is not None and config.task.kind in _LOGITS
    return frozenset({record.outputs[0].name}) if judged else frozenset()


def _samples(
    context: Context, record: ModelRecord, file: Path | None, limit: int | None
) -> tuple[Callable[[], Iterable[Feeds]], Sequence[str]]:
    if file is not None:
        given = read_samples(file, record)[:limit]
        return lambda: given, [f"{file.name}[{i}]" for i in range(len(given))]
    require_current(context, SET)
    evaluation = SampleSet(context.folder(SET.folder) / "evaluation")
    return lambda: islice(evaluation, limit), evaluation.ids[:limit]
