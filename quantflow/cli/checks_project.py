"""Checks of a configuration and what it names: files, chip, functions, samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.artifacts.sample_set import SampleSet
from quantflow.cli.check import Check, problem_checks
from quantflow.config import Config, LoadedConfig, load_config
from quantflow.errors import QuantflowError
from quantflow.report.artifacts import SET_NAMES


def read_configuration(
    path: Path, overrides: Sequence[str], *, required: bool
) -> tuple[LoadedConfig | None, list[Check]]:
    """The configuration, or None with the reasons.

    Args:
        path: the file.
        overrides: see `load_config`.
        required: whether the user asked for this file, so that its absence is an error.
    """
    if not path.exists() and not required:
        value = f"no {path} here; only the machine is checked"
        return None, [Check("configuration", "configuration", "warn", value, "quantflow init")]
    try:
        loaded = load_config(path, overrides)
    except QuantflowError as error:
        return None, problem_checks("configuration", "configuration", error)
    value = f"{path}: all keys valid, all files there"
    return loaded, [Check("configuration", "configuration", "ok", value)]


def chip_checks(config: Config) -> list[Check]:
    """Which chip it is; a configuration with one that atc does not know cannot be read."""
    return [Check("configuration", "chip", "ok", config.target.chip)]


def option_checks(loaded: LoadedConfig) -> list[Check]:
    """Options that atc would refuse, whatever the model."""
    from quantflow.ascend.required_options import wrong_options

    found = wrong_options(loaded)
    errors = [Check("configuration", x.where, "error", x.what, x.fix) for x in found]
    there = bool(loaded.config.atc.options) and not errors
    return errors or [Check("configuration", "atc.options", "ok", "as atc takes them")] * there


def function_checks(loaded: LoadedConfig) -> Iterator[Check]:
    """Whether the files of the user's functions are found; none of their code is run."""
    from quantflow.user_code import source_digest

    for key, name in _functions(loaded.config).items():
        try:
            source_digest(name, loaded.base)
            yield Check("configuration", key, "ok", name)
        except QuantflowError as error:
            yield from problem_checks("configuration", key, error)


def _functions(config: Config) -> dict[str, str]:
    sources = {
        "set.candidates": config.set.candidates,
        "set.deployment": config.set.deployment,
        "set.evaluation": config.set.evaluation,
        **config.task_sources,
    }
    named = {f"{key}.function": source.function for key, source in sources.items() if source}
    named["model.factory"] = config.model.factory
    named["set.preprocess.function"] = config.set.preprocess.function
    named |= config.task.functions if config.task else {}
    return {key: name for key, name in named.items() if name is not None}


def sample_checks(run: RunDirectory) -> Iterator[Check]:
    """The first sample of every set that is there against the model's inputs."""
    from quantflow.calibration.sample_check import check_sample

    path = run.folder("00_model") / "model.json"
    if not path.exists():
        return
    try:
        model = ModelRecord.read(path)
        for name in SET_NAMES:
            directory = run.folder("10_set") / name
            if not (directory / "set.json").exists():
                continue
            samples = SampleSet(directory)
            for sample in samples.first(1):
                check_sample(sample, model.inputs, samples.ids[0])
            value = f"{len(samples)} samples fit the model's inputs"
            yield Check("configuration", f"{name} set", "ok", value)
    except QuantflowError as error:
        yield from problem_checks("configuration", "samples", error)
