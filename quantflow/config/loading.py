"""Reading a configuration: all problems at once, each with the key, the reason and the fix."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from quantflow.config.paths import resolve_path
from quantflow.config.whole import Config
from quantflow.errors import Problem, QuantflowError, did_you_mean
from quantflow.target.chips import check_chip


class LoadedConfig(BaseModel):
    """A configuration with the directory its relative paths start from."""

    model_config = ConfigDict(frozen=True)

    config: Config
    base: Path
    path: Path | None = None

    def resolve(self, name: str) -> Path:
        """The path that a name in the configuration stands for."""
        return resolve_path(name, self.base)

    @property
    def run_directory(self) -> Path:
        """Where this configuration's results go."""
        # Without "..", since it is shown to people; links are left as they are.
        return Path(os.path.normpath(self.resolve(self.config.run.directory)))


def load_config(path: Path, overrides: Sequence[str] = ()) -> LoadedConfig:
    """Read and check a configuration file.

    Args:
        path: the TOML file.
        overrides: ``section.key=value`` strings, applied in order.

    Raises:
        QuantflowError: QF101 to QF106 and QF110, all problems at once.
    """
    try:
        tree: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        problem = Problem(
            "QF101",
            f"cannot read the configuration: {error.strerror}",
            where=str(path),
            fix="`quantflow init` writes one",
        )
        raise QuantflowError([problem]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = Problem("QF101", f"not valid TOML: {error}", where=str(path))
        raise QuantflowError([problem]) from error
    wrong = [problem for text in overrides if (problem := _apply_override(tree, text))]
    if wrong:
        raise QuantflowError(wrong)
    return check_config(tree, base=path.resolve().parent, path=path)


def check_config(tree: Mapping[str, Any], *, base: Path, path: Path | None = None) -> LoadedConfig:
    """Check a configuration given as nested mappings; see `load_config`."""
    wrong_chip = _wrong_chip(tree)
    try:
        config = Config.model_validate(tree)
    except ValidationError as error:
        problems = _problems_of(error, tree, where=path)
        raise QuantflowError([*problems, *wrong_chip]) from error
    problems = [*wrong_chip, *_missing_files(config, base)]
    if problems:
        raise QuantflowError(problems)
    return LoadedConfig(config=config, base=base, path=path)


def _wrong_chip(tree: Mapping[str, Any]) -> tuple[Problem, ...]:
    """What is wrong with the name of the chip, where it is a text at all."""
    target = tree.get("target")
    chip = cast(Mapping[str, object], target).get("chip") if isinstance(target, Mapping) else None
    try:
        if isinstance(chip, str):
            check_chip(chip)
    except QuantflowError as error:
        return tuple(error.problems)
    return ()


def _apply_override(tree: dict[str, Any], override: str) -> Problem | None:
    """Set one value in `tree`; returns what is wrong with the override, if anything is."""
    key, separator, text = override.partition("=")
    parts = key.strip().split(".")
    if not separator or not all(parts):
        return Problem("QF106", f"cannot read {override!r}", where="--set", fix="--set run.seed=1")
    node = tree
    for part in parts[:-1]:
        child = node.setdefault(part, {})
        if not isinstance(child, dict):
            return Problem("QF106", f"{part!r} is not a table", where=f"--set {override}")
        node = cast(dict[str, Any], child)
    node[parts[-1]] = _override_value(text)
    return None


def _override_value(text: str) -> Any:
    try:
        tree = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    return tree["value"] if len(tree) == 1 else text


def _problems_of(
    error: ValidationError, tree: Mapping[str, Any], where: Path | None
) -> Iterator[Problem]:
    messages = dict[str, list[str]]()
    for entry in error.errors():
        location = _location_in(tree, entry["loc"])
        key = ".".join(map(str, location))
        place = f"{where}: {key}" if where else key
        if entry["type"] == "extra_forbidden":
            known = _known_keys(location[:-1])
            name = str(location[-1])
            elsewhere = _ELSEWHERE.get(".".join(x for x in location if isinstance(x, str)))
            fix = elsewhere or did_you_mean(name, known)
            yield Problem("QF102", f"unknown key {name!r}", where=place, fix=fix)
        else:
            message = _PLAIN.get(entry["type"], entry["msg"].removeprefix("Value error, "))
            shown = repr(entry["input"])
            section = isinstance(entry["input"], dict) and len(shown) > 80
            given = f" (given: {shown:.80})" if entry["type"] != "missing" and not section else ""
            messages.setdefault(place, []).append(message + given)
    for place, parts in messages.items():
        yield Problem("QF103", "; or: ".join(parts), where=place)


_PLAIN = {"model_type": "a section with keys of its own is wanted"}
"""Instead of what pydantic says, by its type of error."""

_ELSEWHERE = {
    "quantization.overrides.precision": "precision is given in plan.pins, where layers are named "
    "by pattern or role as they are here"
}
"""What to do about a key that is known in another section."""


def _location_in(tree: object, location: Sequence[int | str]) -> list[int | str]:
    """The keys of `location` as the file has them, without pydantic's names of union members."""
    keys = list[int | str]()
    for part in location:
        if isinstance(tree, Mapping):
            tree = cast(Mapping[object, object], tree).get(part)
        elif isinstance(tree, list) and isinstance(part, int):
            tree = cast(list[object], tree)[part]
        else:
            break
        keys.append(part)
    return keys


def _known_keys(location: Sequence[int | str]) -> list[str]:
    """The keys of the section at `location`."""
    model: type[BaseModel] | None = Config
    parts = iter(location)
    for part in parts:
        field = model.model_fields.get(str(part)) if model else None
        if field is None:
            return []
        model = _section_in(field.annotation)
        if get_origin(field.annotation) in (dict, tuple):
            next(parts, None)  # the key of one of several sections, such as model.inputs.NAME
    return list(model.model_fields) if model else []


def _section_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    arguments: tuple[Any, ...] = get_args(annotation)
    return next((found for part in arguments if (found := _section_in(part))), None)


def _missing_files(config: Config, base: Path) -> Iterator[Problem]:
    sources = {
        "set.candidates.path": config.set.candidates,
        "set.deployment.path": config.set.deployment,
        "set.evaluation.path": config.set.evaluation,
    }
    named = {key: source.path for key, source in sources.items() if source}
    named["model.onnx"] = config.model.onnx
    named["set.preprocess.tokenizer"] = config.set.preprocess.tokenizer
    named["set.profile"] = config.set.profile
    named |= {f"{key}.path": source.path for key, source in config.task_sources.items()}
    named |= config.task.number_files if config.task else {}
    named |= {f"model.depends[{i}]": name for i, name in enumerate(config.model.depends)}
    for key, name in named.items():
        if name is None:
            continue
        try:
            path = resolve_path(name, base)
        except QuantflowError as error:
            yield from (replace(p, where=f"{key}: {p.where}") for p in error.problems)
            continue
        try:
            found = any(path.parent.glob(path.name)) if "*" in path.name else path.exists()
        except OSError:  # a name that is too long, say
            found = False
        if not found:
            yield Problem("QF104", f"no such file: {path}", where=key, fix="check the path")
