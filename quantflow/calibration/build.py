"""The sets of a run, drawn, judged and written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from quantflow.artifacts.model_record import TensorInfo
from quantflow.artifacts.sample_set import SetRecord, write_set
from quantflow.calibration.draw import Drawn, Pool, draw, in_order, shuffled
from quantflow.calibration.features.extract import Extractor
from quantflow.calibration.features.model import OutputFeatures
from quantflow.calibration.features.tokens import unknown_id
from quantflow.calibration.gate import choose
from quantflow.calibration.plans import (
    STREAMS,
    SetPlan,
    check_counts,
    plans_of,
    sources_of,
    stand_in,
)
from quantflow.calibration.preprocess import Preprocessor, make_preprocessor
from quantflow.calibration.sources import describe, read_records, source_digest
from quantflow.config import Config, SourceConfig, resolve_path
from quantflow.progress import Progress, no_progress


def build_sets(
    config: Config,
    base: Path,
    inputs: Sequence[TensorInfo],
    out_dir: Path,
    progress: Progress = no_progress,
    limit: int | None = None,
    outputs: OutputFeatures | None = None,
) -> dict[str, SetRecord]:
    """Draw the sets and write each to a folder of its name in `out_dir`, and ``drift.json``.

    `evaluation` is drawn first, then `heldout`, then the candidates of `calibration`, then
    `deployment`, each without the content of those before: so the samples that accuracy is measured
    on stay the same when the candidates change. `task`, where the task has a
    source, holds all records of it in their order.

    Args:
        config: the sections `set`, `task` and `run.seed` count.
        base: directory that relative paths and modules start from.
        inputs: the model's inputs, with the batch axis.
        out_dir: receives ``evaluation/``, ``heldout/``, ``calibration/``, ``deployment/``,
            ``task/`` and ``drift.json``.
        progress: called after every sample.
        limit: most samples of a set; a task stays whole, since its scores are for all records.
        outputs: features of the model's outputs, for the drift report.

    Returns:
        What was written, by name of the set.

    Raises:
        QuantflowError: QF104, QF105 and QF301 to QF308; too few records are an error, never a
            smaller set, but for `deployment`, of which the drift report says what is missing.
    """
    preprocess = make_preprocessor(config.set.preprocess, inputs, base)
    sources, plans = sources_of(config.set), plans_of(config.set, limit)
    pools = {name: _pool(name, source, config, base) for name, source in sources.items()}
    check_counts(pools, plans)
    drawn = _draw(pools, plans, preprocess, progress)
    extract = Extractor(tuple(inputs), _unknown_id(config, base), outputs)
    size = next(plan.least for plan in plans if plan.name == "calibration")
    drawn["calibration"] = _calibration(config, size, drawn, extract, out_dir, progress)
    notes = (*preprocess.notes, *_same_source_notes(sources, base))
    records: dict[str, SetRecord] = {}
    for plan in plans:
        origin = f"{plan.source}: {describe(sources[plan.source])}, seed {config.run.seed}"
        set_notes = (*stand_in(plan), *notes)
        records[plan.name] = _record(plan.name, origin, drawn[plan.name], inputs, set_notes)
        write_set(out_dir / plan.name, records[plan.name], drawn[plan.name].samples)
    if config.task is not None and config.task.source is not None:
        record, task = _task_set(config.task.source, config, base, preprocess, progress)
        write_set(out_dir / "task", record, task.samples)
        records["task"] = record
    return records


def _draw(
    pools: Mapping[str, Pool], plans: list[SetPlan], preprocess: Preprocessor, progress: Progress
) -> dict[str, Drawn]:
    """The samples of every plan. A plan that comes to nothing is taken off the list."""
    drawn: dict[str, Drawn] = {}
    taken: set[str] = set()
    for plan in tuple(plans):
        drawn[plan.name] = draw(
            pools[plan.source],
            plan.count,
            preprocess,
            least=plan.least,
            taken=taken,
            tick=_ticker(progress, plan.name, plan.count),
        )
        taken |= drawn[plan.name].digests
        if not drawn[plan.name]:
            plans.remove(plan)
    return drawn


def _calibration(
    config: Config,
    count: int,
    drawn: Mapping[str, Drawn],
    extract: Extractor,
    out_dir: Path,
    progress: Progress,
) -> Drawn:
    """The `count` candidates that are calibrated with; the gate's report goes to `drift.json`."""
    candidates, deployment = drawn["calibration"], drawn.get("deployment")
    if not deployment:  # nothing to compare with, so there is no need to run the model
        extract = replace(extract, outputs=None)
    choice = choose(
        extract(candidates, "candidates", progress),
        extract(deployment, "deployment", progress) if deployment else None,
        count,
        selection=config.set.selection,
        seed=config.run.seed,
        evaluation_overlap=sum(x in drawn["evaluation"].digests for x in candidates.passed),
    )
    choice.report.write(out_dir / "drift.json")
    return candidates.take(choice.rows)


def _unknown_id(config: Config, base: Path) -> int | None:
    name = config.set.preprocess.tokenizer
    return unknown_id(resolve_path(name, base)) if name is not None else None


def _pool(name: str, source: SourceConfig, config: Config, base: Path) -> Pool:
    records = read_records(source, base, config.set.preprocess.column)
    order = shuffled(len(records), seed=config.run.seed, stream=STREAMS[name])
    return Pool(name, records, order, config.set.preprocess.column)


def _same_source_notes(sources: Mapping[str, SourceConfig], base: Path) -> tuple[str, ...]:
    digests = {name: source_digest(source, base) for name, source in sources.items()}
    return tuple(
        f"set.{a} and set.{b} are the same data; the samples drawn do not overlap."
        for a, b in combinations(digests, 2)
        if digests[a] == digests[b]
    )


def _task_set(
    source: SourceConfig, config: Config, base: Path, preprocess: Preprocessor, progress: Progress
) -> tuple[SetRecord, Drawn]:
    records = read_records(source, base, config.set.preprocess.column)
    count = len(records)
    pool = Pool("task", records, in_order(count), config.set.preprocess.column)
    drawn = draw(pool, count, preprocess, tick=_ticker(progress, "task", count))
    origin = f"task: {describe(source)}, all records"
    return _record("task", origin, drawn, preprocess.inputs, preprocess.notes), drawn


def _record(
    name: str, origin: str, drawn: Drawn, inputs: Sequence[TensorInfo], notes: tuple[str, ...]
) -> SetRecord:
    return SetRecord(
        name=name,
        source=origin,
        inputs={tensor.name: tensor.dtype for tensor in inputs},
        samples=drawn.infos,
        padding_fraction=_padding_fraction(drawn, inputs),
        duplicates=len(drawn.infos) - len(drawn.digests),
        overlap=len(drawn.passed),
        notes=notes,
    )


def _padding_fraction(drawn: Drawn, inputs: Sequence[TensorInfo]) -> float | None:
    """Share of positions where the mask is 0, over all samples."""
    mask = next((tensor.name for tensor in inputs if tensor.mask), None)
    if mask is None:
        return None
    kept = sum(int(np.count_nonzero(sample[mask])) for sample in drawn.samples)
    return 1 - kept / sum(sample[mask].size for sample in drawn.samples)


def _ticker(progress: Progress, name: str, total: int) -> Callable[[int], None]:
    return lambda done: progress(f"{name} samples", done, total)
