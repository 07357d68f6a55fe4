"""Checks of the data: the first records of every source, as a run would read them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout

from quantflow.artifacts.model_record import ModelRecord, TensorInfo
from quantflow.calibration.plans import sources_of
from quantflow.calibration.preprocess import Preprocessor, make_preprocessor
from quantflow.calibration.sources import describe, first_records
from quantflow.cli.check import Check, problem_check, problem_checks
from quantflow.config import Config, LoadedConfig, SourceConfig
from quantflow.errors import Problem, QuantflowError
from quantflow.graph.bucket_rules import bucket_problems
from quantflow.runtime.bucket_run import fit_sample
from quantflow.stages.model_inputs import configured_inputs, mask_notes
from quantflow.user_code import load_function

RECORDS = 2
"""Records read of every source; a second one shows what differs from one to the next."""


def data_checks(loaded: LoadedConfig) -> list[Check]:
    """Whether inputs, buckets, preprocessing and every source's first records fit each other.

    The user's functions that give or convert records are called, those that judge are imported; the
    model's factory is neither.
    """
    with redirect_stdout(sys.stderr):  # theirs may print
        return list(_checks(loaded))


def _checks(loaded: LoadedConfig) -> Iterator[Check]:
    inputs: tuple[TensorInfo, ...] = ()
    preprocess: Preprocessor | None = None
    try:
        inputs = configured_inputs(loaded)
        for note in mask_notes(loaded.config, inputs):
            yield Check("configuration", "inputs", "warn", note)
    except QuantflowError as error:
        yield from problem_checks("configuration", "inputs", error)
    unfit = _bucket_problems(loaded.config, inputs)
    yield from (problem_check("configuration", "buckets", problem) for problem in unfit)
    if inputs:
        try:
            preprocess = make_preprocessor(loaded.config.set.preprocess, inputs, loaded.base)
            for note in preprocess.notes:
                yield Check("configuration", "set.preprocess", "warn", note)
        except QuantflowError as error:
            yield from problem_checks("configuration", "set.preprocess", error)
    for key, source in _sources(loaded.config).items():
        try:
            count = _read(source, loaded, preprocess, fit=not unfit)
            value = f"{describe(source)}: the first {count} records"
            fits = " fit the model's inputs" if preprocess else " can be read"
            yield Check("configuration", key, "ok", value + fits)
        except QuantflowError as error:
            yield from problem_checks("configuration", key, error)
    for key, name in (loaded.config.task.functions if loaded.config.task else {}).items():
        try:
            load_function(name, loaded.base)
        except QuantflowError as error:
            yield from problem_checks("configuration", key, error)


def _read(
    source: SourceConfig, loaded: LoadedConfig, preprocess: Preprocessor | None, *, fit: bool
) -> int:
    """Read the first records, and have them fit the inputs and the first bucket.

    Returns:
        How many there were.

    Raises:
        QuantflowError: what stops the source's first unfit record.
    """
    config = loaded.config
    records = first_records(source, loaded.base, RECORDS, config.set.preprocess.column)
    for index, record in enumerate(records):
        if preprocess is None:
            continue
        sample = preprocess(record, f"{describe(source)}, record {index}")
        if fit:
            first, *others = config.target.buckets
            fit_sample(sample, _boundary(preprocess.inputs), first, others)
    return len(records)


def _sources(config: Config) -> dict[str, SourceConfig]:
    sources = {f"set.{name}": source for name, source in sources_of(config.set).items()}
    return sources | config.task_sources


def _bucket_problems(config: Config, inputs: Sequence[TensorInfo]) -> list[Problem]:
    names = dict.fromkeys(dim for x in inputs for dim in x.shape if isinstance(dim, str))
    return bucket_problems(list(names), config.target)


def _boundary(inputs: tuple[TensorInfo, ...]) -> ModelRecord:
    """A record of a model of which no more than the inputs is known."""
    return ModelRecord(opset=0, inputs=inputs, outputs=(), layers=(), groups=(), padding=())
