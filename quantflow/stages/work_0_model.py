"""The work of stage 0: the canonical model, its layers, roles and groups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from quantflow.artifacts.model_record import ModelRecord
from quantflow.errors import QuantflowError, fail
from quantflow.evaluation.random_samples import random_samples
from quantflow.evaluation.same_outputs import differences, finite
from quantflow.graph.bucket import free_dims
from quantflow.graph.bucket_rules import check_buckets
from quantflow.graph.canonical import CLAMPED, WIDENED, canonicalize
from quantflow.graph.layers import describe_model
from quantflow.graph.model_io import load_model, save_model
from quantflow.graph.quantized.settle import settle
from quantflow.graph.refusals import refuse_nonfinite
from quantflow.runtime.bucket_run import Outputs, run_samples
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.runner import Feeds
from quantflow.stages.bucket_shapes import check_shapes
from quantflow.stages.given_model import GivenModel, given_model
from quantflow.stages.model_inputs import check_mask, decoding_notes, mask_input, mask_notes
from quantflow.stages.stage import Context

SAMPLES = 3
"""Random samples that the canonical model is compared with the given one on."""

_UNCLAMPED = (
    "mask fill values beyond fp16 stay: to set them to 16384 changes the outputs for random inputs"
)


def work(context: Context, folder: Path) -> None:
    """Write `model.onnx` and `model.json`."""
    given = given_model(context)
    record = _prepare(context, given, folder)
    found = _compare(context, given, record, folder)
    if found.differences and _says(record, CLAMPED):
        record = _prepare(context, given, folder, clamp_masks=False)
        found = _compare(context, given, record, folder)
    if found.differences:
        fail(
            "QF218",
            f"the canonical model does not compute what the given one does: "
            f"{'; '.join(found.differences)} on {SAMPLES} random samples",
            where=given.name,
            fix=f"export the model at opset {record.opset}, so that less is rewritten, and report "
            "what quantflow got wrong",
        )
    notes = (*record.notes, *([found.missed] if found.missed else []))
    record.model_copy(update={"notes": notes}).write(folder / "model.json")
    context.progress("comparing with the given model", 4, 4)


def _prepare(
    context: Context, given: GivenModel, folder: Path, *, clamp_masks: bool = True
) -> ModelRecord:
    """Write the canonical model; returns what is known of it."""
    config = context.config
    context.progress("reading the model", 0, 4)
    model, quantized = given.read()
    context.progress("canonical form", 1, 4)
    notes = canonicalize(model, config.target.cann, clamp_masks=clamp_masks)
    notes += [] if clamp_masks else [_UNCLAMPED]
    check_buckets(free_dims(model), config.target)
    context.progress("layers, roles and groups", 2, 4)
    mask = mask_input(config, [str(value.name) for value in model.graph.inputs])
    optional = config.quantization.optional_layers
    record = describe_model(
        model, config.target.buckets[0], mask=mask, notes=notes, optional=optional
    )
    check_mask(config, record.inputs)
    if quantized is not None:
        record = settle(model, record, quantized)
    save_model(model, folder / "model.onnx")
    said = (*record.notes, *mask_notes(config, record.inputs), *decoding_notes(config))
    return record.model_copy(update={"origin": given.name, "notes": said})


@dataclass(frozen=True, slots=True)
class _Comparison:
    """What differs between the canonical model and the given one, or why that is not known."""

    differences: list[str]
    missed: str = ""


def _compare(context: Context, given: GivenModel, record: ModelRecord, folder: Path) -> _Comparison:
    """Run both on random samples, one after the other: their weights may be large."""
    config = context.config
    model = load_model(folder / "model.onnx")
    refuse_nonfinite(model, record.layers)
    check_shapes(model, record, config)
    context.progress("comparing with the given model", 3, 4)
    # Whatever onnxruntime would refuse is refused here, before any long work.
    runner = OnnxRuntimeRunner(model, config.runtime, optimize=False)
    samples = random_samples(model, record, config.target.buckets[0], SAMPLES)
    try:
        dims, found = _run_canonical(runner, samples, record, config.target.buckets[0])
        del runner, model
        expected = [x for _, (x,) in run_samples([given.open()], samples, record, dims)]
    except QuantflowError as error:
        problem = error.problems[0]
        if problem.code == "QF212":
            raise
        return _Comparison([], f"not compared with the given model: {problem.what}")
    if not finite(expected):
        return _Comparison([], "not compared with the given model: it gives no finite number")
    return _Comparison(differences(expected, found, half=_says(record, WIDENED)))


def _run_canonical(
    runner: OnnxRuntimeRunner, samples: list[Feeds], record: ModelRecord, bucket: dict[str, int]
) -> tuple[dict[str, int], list[Outputs]]:
    """Outputs of the samples, and the sizes they ran at: the bucket's, with a batch of their own.

    No output has another axis of that size by chance, as it may have of a batch of one. Where the
    graph holds the bucket's batch, it is that.
    """
    first = record.inputs[0].shape[0]
    dims = {**bucket, first: SAMPLES} if isinstance(first, str) else bucket
    try:
        return dims, [x for _, (x,) in run_samples([runner], samples, record, dims)]
    except QuantflowError as error:
        if error.problems[0].code == "QF212" or dims == bucket:
            raise
    return bucket, [x for _, (x,) in run_samples([runner], samples, record, bucket)]


def _says(record: ModelRecord, note: str) -> bool:
    return any(said.startswith(note) for said in record.notes)
