"""Layers alone, given the reference's input: their own fault is told from what came before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from quantflow.artifacts.model_record import Layer
from quantflow.artifacts.side_by_side import OwnError
from quantflow.evaluation.arranged import arrange_batch, sample_values
from quantflow.evaluation.places import Place, computed
from quantflow.evaluation.sides import ModelSide
from quantflow.evaluation.subject import Subject
from quantflow.evaluation.tally import Tally
from quantflow.evaluation.thresholds import Thresholds, excess
from quantflow.graph.edit import cut_between, with_outputs
from quantflow.progress import Progress
from quantflow.runtime.bucket_run import bucket_batches
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.runner import Feeds


def own_errors(
    layers: Sequence[Layer],
    reference: ModelSide,
    judged: ModelSide,
    subject: Subject,
    samples: Iterable[Feeds],
    ids: Sequence[str],
    asked: Thresholds,
    progress: Progress,
) -> tuple[OwnError, ...]:
    """Run layers of one side on the other side's inputs.

    Args:
        layers: that both sides have.
        reference: gives the inputs, and the outputs to expect.
        judged: the side whose layers are run alone.
        subject: the bucket.
        samples, ids: the samples, arrays without the batch axis.
        asked: says what is beyond.
        progress: called after every batch.

    Returns:
        One entry a layer, those that do most harm first.
    """
    layers = _there(layers, reference, judged)
    if not layers:
        return ()
    sources = sorted({name for x in layers for name in (x.input, x.second_input) if name})
    results = list(dict.fromkeys(layer.output for layer in layers))
    given = [name for name in sources if computed(reference.model, [name])]
    whole = with_outputs(reference.model, list(dict.fromkeys([*given, *results])))
    expected = OnnxRuntimeRunner(whole, subject.runtime)
    alone = OnnxRuntimeRunner(cut_between(judged.model, sources, results), subject.runtime)
    layouts, tallies = subject.layouts(results), {name: Tally() for name in results}
    done, record = 0, subject.record
    for batch in bucket_batches(samples, record, subject.bucket.dims):
        exact = {**batch.feeds, **expected.run(batch.feeds)}
        # By position: a layer that feeds another one directly gives its output a new name.
        found = alone.run({name: exact[name] for name in sources}).values()
        for name, value in zip(results, found, strict=True):
            parts = [
                arrange_batch(x, batch.feeds, len(batch.indices), record, layouts[name], name)
                for x in (exact[name], value)
            ]
            values = zip(*map(sample_values, parts), strict=True)
            for index, (a, b) in zip(batch.indices, values, strict=True):
                tallies[name].add(ids[index], a, b)
        done += len(batch.indices)
        progress("every layer of the block alone", done, len(ids))
    errors = [_entry(layer, tallies, asked) for layer in layers]
    return tuple(sorted(errors, key=lambda x: (not x.beyond, -x.relative_error)))


def _there(layers: Sequence[Layer], reference: ModelSide, judged: ModelSide) -> list[Layer]:
    """Those layers whose tensors both sides have, by the same names."""

    def complete(layer: Layer, side: ModelSide) -> bool:
        names = {x for x in (layer.input, layer.second_input, layer.output) if x}
        inputs = {str(value.name) for value in side.model.graph.inputs}
        return names <= {*computed(side.model, list(names)), *inputs}

    return [x for x in layers if complete(x, reference) and complete(x, judged)]


def _entry(layer: Layer, tallies: Mapping[str, Tally], asked: Thresholds) -> OwnError:
    point = tallies[layer.output].point(Place(layer.name, "layer", layer.output), None)
    return OwnError(
        layer=layer.name,
        cosine=point.cosine,
        relative_error=point.relative_error,
        beyond=excess(point, "layer", asked),
    )
