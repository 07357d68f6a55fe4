"""Comparisons with a side that onnxruntime does not run: .om files on an NPU, torch modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from quantflow.artifacts.side_by_side import SideBySide, SideInfo, SideKind
from quantflow.ascend.om_file import read_om_header
from quantflow.ascend.run_atc import find_om
from quantflow.errors import fail
from quantflow.evaluation.latency import measure_latency
from quantflow.evaluation.probing import ask_probes, probe_files, probe_reasons
from quantflow.evaluation.side_runner import RunnerSide, check_outputs, om_names
from quantflow.evaluation.sides import Side
from quantflow.graph.bucket import bucket_name
from quantflow.runtime.bucket_run import bucket_batches
from quantflow.runtime.om_model import om_backend
from quantflow.runtime.om_process import OmProcess
from quantflow.stages.given_model import open_module
from quantflow.stages.ready import Ready, make_ready
from quantflow.stages.side_by_side import CONVERT, Asked, compare_ready, side_of
from quantflow.stages.stage import Context
from quantflow.stages.stage_5_om import STAGE as OM


def compare_om(context: Context, texts: Sequence[str], asked: Asked, device: int) -> SideBySide:
    """Compare .om files with each other or with something else, and time them.

    Probes that were compiled run first. Each .om has a process of its own.

    Args:
        context: of the run.
        texts: reference and other, each an .om file or what `side_of` takes; none stands for the
            run's own fp16 and int8 .om of the first bucket.
        asked: samples and thresholds.
        device: number of the NPU.

    Raises:
        QuantflowError: QF109 when no side is an .om file, QF620 when nothing here runs one, QF621
            when that fails, QF401 when the run has no .om files, QF702 for what is none, QF211 and
            QF543 for one of another model; what `make_ready` and `side_of` raise.
    """
    folder = context.folder(OM.folder)
    if texts and not any(map(is_om, texts)):
        what = "--runner om: this goes with an .om file among the sides, or without sides"
        first = folder / f"{bucket_name(context.config.target.buckets[0])}.om"
        fix = f"quantflow compare {texts[0]} {first} --runner om"
        fail("QF109", what, where="quantflow compare", fix=fix)
    backend = om_backend()
    ready = make_ready(context, asked.samples, asked.limit)
    own = _own_files(folder, ready.subject.bucket.name)
    texts = texts or [str(_there(own, kind, folder)) for kind in ("om_fp16", "om_int8")]

    def open_om(path: Path) -> OmProcess:
        read_om_header(path)
        return OmProcess(str(path), backend, device)

    answers = ask_probes(probe_files(folder), open_om, context.config, context.progress)
    sides, models = list[Side](), list[tuple[str, OmProcess]]()
    with ExitStack() as opened:
        for text in texts:
            if not is_om(text):
                sides.append(side_of(context, ready, text))
                continue
            model = opened.enter_context(open_om(Path(text)))
            sides.append(_om_side(Path(text), model, ready, own))
            models.append((text, model))
        found = compare_ready(context, ready, sides, asked)
        subject = ready.subject
        batch = next(bucket_batches(ready.samples(), subject.record, subject.bucket.dims))
        timed = measure_latency(models, batch.feeds, context.progress)
    reasons = probe_reasons(answers)
    return found.model_copy(
        update={
            "latency": None if isinstance(timed, str) else timed,
            "notes": (*found.notes, timed) if isinstance(timed, str) else found.notes,
            "probes": tuple(answers),
            "verdict": "fail" if reasons else found.verdict,
            "reasons": (*reasons, *found.reasons),
        }
    )


def compare_torch(context: Context, texts: Sequence[str], asked: Asked, device: str) -> SideBySide:
    """Compare the factory's module, which stands for ``fp32``, with something else.

    Args:
        context: of the run.
        texts: reference and other; one of them is ``fp32``.
        asked: samples and thresholds.
        device: as `torch.device` takes it.

    Raises:
        QuantflowError: QF109 without a factory or ``fp32``, QF603 and QF622 when the device cannot
            be used; what `make_ready` and `side_of` raise.
    """
    if "fp32" not in texts:
        fix = "quantflow compare fp32 B --runner torch"
        fail("QF109", "torch runs the side fp32, and none is", where="--runner", fix=fix)
    module = open_module(context, device)  # before all else, for it may be missing
    ready = make_ready(context, asked.samples, asked.limit)
    info = SideInfo(name="fp32", kind="fp32", ran_on=f"torch, {device}")
    side = RunnerSide(info, module, {name: name for name in module.outputs})
    sides = [side if text == "fp32" else side_of(context, ready, text) for text in texts]
    return compare_ready(context, ready, sides, asked)


def is_om(text: str) -> bool:
    """Whether a side is an .om file, by its name."""
    return Path(text).suffix == ".om" and not Path(text).is_dir()


def _om_side(
    path: Path, model: OmProcess, ready: Ready, own: Mapping[SideKind, Path | None]
) -> RunnerSide:
    kind: SideKind = "om"
    for known, file in own.items():
        kind = known if file and file.resolve() == path.resolve() else kind
    info = SideInfo(name=str(path), kind=kind, ran_on=model.device)
    outputs = ready.subject.record.outputs
    names = om_names(model.outputs, [output.name for output in outputs], str(path))
    check_outputs(model.described, names, ready.subject, str(path))
    return RunnerSide(info, model, names)


def _own_files(folder: Path, bucket: str) -> dict[SideKind, Path | None]:
    return {"om_fp16": find_om(folder / f"{bucket}_fp16"), "om_int8": find_om(folder / bucket)}


def _there(own: Mapping[SideKind, Path | None], kind: SideKind, folder: Path) -> Path:
    path = own[kind]
    if path is None:
        what = f"there is no {kind.removeprefix('om_')} .om of the first bucket"
        fail("QF401", what, where=str(folder), fix=CONVERT)
    return path
