"""The sets of a run, drawn and written: calibration, held-out, evaluation and task samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from quantflow.artifacts.model_record import TensorInfo
from quantflow.artifacts.sample_set import SetRecord, write_set
from quantflow.calibration.draw import Drawn, Pool, draw, in_order, shuffled
from quantflow.calibration.preprocess import Preprocessor, make_preprocessor
from quantflow.calibration.sources import describe, read_records, source_digest
from quantflow.config import Config, SetConfig, SourceConfig, TaskConfig
from quantflow.errors import Problem, QuantflowError
from quantflow.progress import Progress, no_progress

_STREAMS = {"candidates": 0, "deployment": 1, "evaluation": 2}
"""Random stream of every source, so that one's length does not move another's draw."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """A set to draw, the source it comes from, and the key that gives its size."""

    name: str
    source: str
    count: int
    key: str


def build_sets(
    config: Config,
    base: Path,
    inputs: Sequence[TensorInfo],
    out_dir: Path,
    progress: Progress = no_progress,
    limit: int | None = None,
) -> dict[str, SetRecord]:
    """Draw the sets and write each to a folder of its name in `out_dir`.

    `evaluation` is drawn first, then `heldout`, then `calibration`, each without the content of
    those before: so the samples that accuracy is measured on stay the same when the candidates
    change. `task`, when there is one, holds all records of its source in their order.

    Args:
        config: the sections `set`, `task` and `run.seed` count.
        base: directory that relative paths and modules start from.
        inputs: the model's inputs, with the batch axis.
        out_dir: receives ``evaluation/``, ``heldout/``, ``calibration/`` and ``task/``.
        progress: called after every sample.
        limit: most samples of a set; a task stays whole, since its scores are for all records.

    Returns:
        What was written, by name of the set.

    Raises:
        QuantflowError: QF104, QF105 and QF301 to QF308; too few records are an error, never a
            smaller set.
    """
    preprocess = make_preprocessor(config.set.preprocess, inputs, base)
    sources, plans = _sources(config.set), _plans(config.set, limit)
    pools = {name: _pool(name, source, config, base) for name, source in sources.items()}
    _check_counts(pools, plans)
    notes = (*preprocess.notes, *_same_source_notes(sources, base))
    records: dict[str, SetRecord] = {}
    taken: set[str] = set()
    for plan in plans:
        tick = _ticker(progress, plan.name, plan.count)
        drawn = draw(pools[plan.source], plan.count, preprocess, taken=taken, tick=tick)
        taken |= drawn.digests
        origin = f"{plan.source}: {describe(sources[plan.source])}, seed {config.run.seed}"
        record = _record(plan.name, origin, drawn, inputs, (*_stand_in(plan), *notes))
        write_set(out_dir / plan.name, record, drawn.samples)
        records[plan.name] = record
    if config.task is not None:
        record, drawn = _task_set(config.task, config, base, preprocess, progress)
        write_set(out_dir / "task", record, drawn.samples)
        records["task"] = record
    return records


def _sources(sets: SetConfig) -> dict[str, SourceConfig]:
    named = {name: getattr(sets, name) for name in _STREAMS}
    return {name: source for name, source in named.items() if source is not None}


def _plans(sets: SetConfig, limit: int | None) -> list[_Plan]:
    """The sets in the order they are drawn."""
    deployment = "deployment" if sets.deployment else "candidates"
    evaluation = "evaluation" if sets.evaluation else deployment
    wanted = [
        ("evaluation", evaluation, sets.evaluation_samples, "set.evaluation_samples"),
        ("heldout", deployment, sets.heldout_samples, "set.heldout_samples"),
        ("calibration", "candidates", sets.samples, "set.samples"),
    ]
    most = limit or max(count for _, _, count, _ in wanted)
    return [_Plan(name, source, min(count, most), key) for name, source, count, key in wanted]


def _stand_in(plan: _Plan) -> tuple[str, ...]:
    """Says so where a set comes from another source than the one meant for it."""
    meant = {"evaluation": "evaluation", "heldout": "deployment", "calibration": "candidates"}
    source = meant[plan.name]
    if plan.source == source:
        return ()
    return (f"There is no set.{source}: these are other samples of set.{plan.source}.",)


def _pool(name: str, source: SourceConfig, config: Config, base: Path) -> Pool:
    records = read_records(source, base)
    order = shuffled(len(records), seed=config.run.seed, stream=_STREAMS[name])
    return Pool(name, records, order, config.set.preprocess.column)


def _check_counts(pools: Mapping[str, Pool], plans: Sequence[_Plan]) -> None:
    """Refuse what cannot work before anything is preprocessed, all sources at once."""
    problems: list[Problem] = []
    for name, pool in pools.items():
        asked = [plan for plan in plans if plan.source == name]
        total = sum(plan.count for plan in asked)
        if total > len(pool.records):
            parts = " + ".join(f"{plan.count} ({plan.key})" for plan in asked)
            what = f"{name} has {len(pool.records)} records, {total} are needed: {parts}"
            fix = "add records, or lower " + " or ".join(plan.key for plan in asked)
            problems.append(Problem("QF308", what, where=f"set.{name}", fix=fix))
    if problems:
        raise QuantflowError(problems)


def _same_source_notes(sources: Mapping[str, SourceConfig], base: Path) -> tuple[str, ...]:
    digests = {name: source_digest(source, base) for name, source in sources.items()}
    return tuple(
        f"set.{a} and set.{b} are the same data; the samples drawn do not overlap."
        for a, b in combinations(digests, 2)
        if digests[a] == digests[b]
    )


def _task_set(
    task: TaskConfig, config: Config, base: Path, preprocess: Preprocessor, progress: Progress
) -> tuple[SetRecord, Drawn]:
    records = read_records(task.source, base)
    count = len(records)
    pool = Pool("task", records, in_order(count), config.set.preprocess.column)
    drawn = draw(pool, count, preprocess, tick=_ticker(progress, "task", count))
    origin = f"task: {describe(task.source)}, all records"
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
        overlap=drawn.overlap,
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
