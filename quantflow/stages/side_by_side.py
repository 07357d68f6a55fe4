"""Any two sides of a run: resolving what they are, and comparing them on the run's samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.side_by_side import SideBySide, SideInfo
from quantflow.errors import did_you_mean, fail
from quantflow.evaluation.bisection import Search
from quantflow.evaluation.dump_names import tensors_in_dump, with_inner
from quantflow.evaluation.dumps import Dump, open_dump
from quantflow.evaluation.places import Place, places_of, values_of
from quantflow.evaluation.precisions import FilePrecision, precision_model
from quantflow.evaluation.side_by_side import compare_dumps, compare_sides
from quantflow.evaluation.side_file import file_side
from quantflow.evaluation.sides import DumpSide, ModelSide, Side
from quantflow.evaluation.thresholds import Thresholds, adjusted, thresholds_for
from quantflow.graph.model_io import load_model
from quantflow.progress import Progress
from quantflow.stages.ready import Ready, make_ready
from quantflow.stages.stage import Context
from quantflow.stages.stage_4_onnx import STAGE as ONNX
from quantflow.stages.stage_5_om import STAGE as OM
from quantflow.tasks.criteria import criteria

CONVERT = "convert it (`quantflow export-om`, or convert.py on a machine that has atc)"

PRECISIONS: tuple[FilePrecision, ...] = get_args(FilePrecision)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a comparison of two sides is asked for.

    Attributes:
        samples: an .npz file, as `read_samples` takes it; the run's evaluation set without it.
        limit: most samples.
        repeat: how often each model runs the first batch.
        layer_cosine, output_cosine, output_error: thresholds in place of the pair's own.
    """

    samples: Path | None = None
    limit: int | None = None
    repeat: int = 2
    layer_cosine: float | None = None
    output_cosine: float | None = None
    output_error: float | None = None

    def thresholds(self, pair: Thresholds) -> Thresholds:
        """Those of the pair, but for what is given."""
        return adjusted(pair, self.layer_cosine, self.output_cosine, self.output_error)


def check_side(text: str) -> None:
    """Refuse what is neither a precision nor a file or directory.

    Raises:
        QuantflowError: QF107; QF401 for an .om file that a run has not got.
    """
    path = Path(text)
    if text not in PRECISIONS and not path.exists():
        if path.suffix == ".om" and path.parent.name == OM.folder and path.parent.is_dir():
            there = sorted(x.name for x in path.parent.glob("*.om") if "probe_" not in x.name)
            fix = f"{CONVERT}, or give {', '.join(there[:5])}" if there else CONVERT
            fail("QF401", "there is no such .om: it is not converted yet", where=text, fix=fix)
        names = ", ".join(PRECISIONS)
        fix = did_you_mean(text, PRECISIONS) or f"give one of {names}, an ONNX file or a directory"
        fail("QF107", f"{text!r} is no precision, and no such file is there", where=text, fix=fix)


def are_dumps(*texts: str) -> bool:
    """Whether all are directories, so that no run is needed."""
    return all(text not in PRECISIONS and Path(text).is_dir() for text in texts)


def graph_order(context: Context) -> list[Place]:
    """Everything that the run's float model computes, in graph order; empty before stage 0.

    A layer stands in front of the tensor that it gives.
    """
    if not (context.quantized_model / "model.json").is_file():
        return []
    record = ModelRecord.read(context.quantized_model / "model.json")
    model = load_model(context.quantized_model / "model.onnx")
    return sorted([*places_of(model, record), *values_of(model)], key=lambda x: x.position)


def compare_directories(
    reference: str, other: str, asked: Asked, progress: Progress, graph: Sequence[Place] = ()
) -> SideBySide:
    """Compare two directories of dumped tensors.

    Args:
        reference, other: the directories.
        asked: samples and thresholds.
        progress: called after every tensor.
        graph: `graph_order` of a run; empty without one.

    Raises:
        QuantflowError: QF341 for what cannot be read, QF342 for two with nothing in common.
    """
    sides = [_dump_side(text, open_dump(Path(text)), {}) for text in (reference, other)]
    thresholds = asked.thresholds(thresholds_for("dump", "dump"))
    return compare_dumps(sides[0], sides[1], thresholds, progress, asked.limit, graph)


def compare_pair(context: Context, reference: str, other: str, asked: Asked) -> SideBySide:
    """Compare two sides on the samples of a run, in its first bucket.

    Args:
        context: of the run.
        reference, other: a precision, an ONNX file or a directory of dumped tensors each.
        asked: samples and thresholds.

    Raises:
        QuantflowError: QF404, QF405 and QF407 when the run lacks stage 4, or it is not current;
            what `file_side`, `open_dump` and `read_samples` raise.
    """
    ready = make_ready(context, asked.samples, asked.limit)
    return compare_ready(
        context, ready, [side_of(context, ready, text) for text in (reference, other)], asked
    )


def compare_ready(
    context: Context, ready: Ready, sides: Sequence[Side], asked: Asked
) -> SideBySide:
    """Compare two sides, the reference first."""
    of_budget = criteria(context.config, context.loaded.base)
    thresholds = thresholds_for(sides[0].info.kind, sides[1].info.kind, of_budget)
    search = Search(
        reference=sides[0],
        other=sides[1],
        subject=ready.subject,
        samples=ready.samples,
        ids=ready.ids,
        asked=asked.thresholds(thresholds),
        repeat=asked.repeat,
        progress=context.progress,
    )
    return compare_sides(search)


def side_of(context: Context, ready: Ready, text: str) -> Side:
    """A precision, an ONNX file or a directory of dumped tensors, as a side.

    Raises:
        QuantflowError: what `file_side` and `open_dump` raise.
    """
    subject, plan = ready.subject, ready.plan
    folder, target = context.folder(ONNX.folder), context.config.target
    for name in PRECISIONS:
        if text == name:
            model = precision_model(name, folder, subject.bucket, plan, target)
            return ModelSide(SideInfo(name=name, kind=name), model)
    if not Path(text).is_dir():
        return file_side(Path(text), subject.record, subject.bucket, plan, target)
    dump = open_dump(Path(text))
    names = tensors_in_dump(places_of(subject.model, subject.record), dump.tensors)
    return _dump_side(text, dump, with_inner(names, values_of(subject.model), dump.tensors))


def _dump_side(text: str, dump: Dump, names: dict[str, str]) -> DumpSide:
    return DumpSide(SideInfo(name=text, kind="dump"), dump, names)
