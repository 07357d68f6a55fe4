"""The configuration: one TOML file, checked as a whole before any work starts.

Every section is a model that refuses unknown keys. `load_config` reports all problems at once, each
with the key, the reason and the fix.
"""

from __future__ import annotations

import importlib.util
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from quantflow.errors import Problem, QuantflowError, did_you_mean

Estimator = Literal["auto", "minmax", "percentile", "kl", "mse"]
Role = Literal["qkv", "attention_output", "ffn", "classifier", "conv", "other"]
Granularity = Literal["per-channel", "per-tensor"]
Policy = Literal["auto", "attention", "none"]
Metric = Literal["cosine", "relative_error", "kl"]
Selection = Literal["random", "match"]
SourceKind = Literal["jsonl", "csv", "parquet", "text", "imagefolder", "dataset", "npz", "function"]
FunctionName = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
Size = Annotated[int, Field(ge=1)]
DimName = Annotated[str, Field(min_length=1)]


def _not_empty(value: tuple[Any, ...]) -> tuple[Any, ...]:
    # Unlike min_length, this says nothing when an item is wrong already.
    if not value:
        raise ValueError("must not be empty")
    return value


class Section(BaseModel):
    """A table of the configuration: frozen, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RunConfig(Section):
    """Where results go."""

    directory: str = "run"
    seed: int = Field(default=0, ge=0, lt=2**32)


class InputConfig(Section):
    """One input of the model.

    Attributes:
        dtype: numpy name of the element type.
        shape: one entry a dimension; a number is fixed, a name is free and given by the bucket. The
            first dimension is the batch.
        mask: true for the input that is 0 where a position is padding. An input called
            ``attention_mask`` is one without being told.
    """

    dtype: Literal["float32", "float16", "int64", "int32", "uint8", "bool"] = "float32"
    shape: Annotated[tuple[Size | DimName, ...], AfterValidator(_not_empty)]
    mask: bool | None = None


class ModelConfig(Section):
    """The float model: a torch factory or an ONNX file.

    Attributes:
        factory: ``module:function`` that returns a ``torch.nn.Module`` in eval mode.
        onnx: path of an ONNX file.
        depends: further files that decide what the factory returns (weights, say); a change in one
            of them makes the run directory stale.
        inputs: in the order of the module's forward; required with `factory`.
        outputs: names of the outputs, in order; required with `factory`.
    """

    factory: FunctionName | None = None
    onnx: str | None = None
    depends: tuple[str, ...] = ()
    inputs: dict[str, InputConfig] = {}
    outputs: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one_origin(self) -> ModelConfig:
        if (self.factory is None) == (self.onnx is None):
            raise ValueError("give exactly one of 'factory' and 'onnx'")
        if self.factory is not None and not (self.inputs and self.outputs):
            raise ValueError("a torch factory needs [model.inputs.NAME] tables and 'outputs'")
        names = [*self.inputs, *self.outputs]
        if not all(names) or len(set(names)) < len(names):
            raise ValueError("names of inputs and outputs must differ from each other")
        return self


class TargetConfig(Section):
    """What is compiled for.

    Attributes:
        chip: the soc_version that atc is given.
        cann: version of the op table, which also sets the opset ceiling.
        fp19_dequant: whether the chip reads dequantization scales as FP19.
        buckets: the static shapes to compile, each a value for every free dimension of the model.
            The first one is the one that is evaluated.
    """

    chip: str = "Ascend310P3"
    cann: Literal["2026", "8.0"] = "2026"
    fp19_dequant: bool = True
    buckets: Annotated[tuple[dict[DimName, Size], ...], AfterValidator(_not_empty)] = (
        {"batch": 1},
    )


class SourceConfig(Section):
    """Where records come from.

    Attributes:
        kind: file format; `dataset` is a directory saved by the `datasets` library; `npz` holds one
            array per model input, samples along the first axis; `function` is a user's function
            that yields dict records.
        path: file, directory or, with ``*`` in the last part, all files that fit; for all kinds but
            `function`.
        function: ``module:function`` without arguments.
    """

    kind: SourceKind
    path: str | None = None
    function: FunctionName | None = None

    @model_validator(mode="after")
    def _one_place(self) -> SourceConfig:
        if self.kind == "function" and self.function is None:
            raise ValueError("kind 'function' needs 'function'")
        if self.kind != "function" and self.path is None:
            raise ValueError(f"kind '{self.kind}' needs 'path'")
        return self


class PreprocessConfig(Section):
    """From a record to the model's inputs.

    With `tokenizer`, the column `column` is tokenized. With `function`, the user's function takes a
    record and returns one array per input, without the batch axis. With neither, the record's own
    columns are the inputs.

    Attributes:
        tokenizer: path of a ``tokenizer.json``.
        column: column that holds the text.
        max_length: tokens kept of a text.
        pad: ``max_length`` pads every sample to that length; ``none`` leaves lengths as they are.
        function: ``module:function`` from record to arrays.
    """

    tokenizer: str | None = None
    column: str = "text"
    max_length: int = Field(default=128, ge=1)
    pad: Literal["max_length", "none"] = "max_length"
    function: FunctionName | None = None

    @model_validator(mode="after")
    def _one_way(self) -> PreprocessConfig:
        if self.tokenizer is not None and self.function is not None:
            raise ValueError("give 'tokenizer' or 'function', not both")
        return self


class SetConfig(Section):
    """The calibration set and the samples that judge it.

    Attributes:
        samples: size of the calibration set, drawn from `candidates`.
        heldout_samples: deployment samples that clipping is reported on.
        evaluation_samples: samples that fp16 and int8 are compared with fp32 on.
        selection: `random` takes candidates by chance; `match` takes those that together look like
            deployment.
        deployment_samples: further deployment samples, which the calibration set is compared with
            and matched to; all that are left when there are fewer.
        pool_samples: candidates that `match` chooses from; all of them when there are fewer.
        candidates: pool of the calibration set.
        deployment: what production sends. Without it, held-out samples are other candidates.
        evaluation: what accuracy is measured on. Without it, other samples of `deployment`.
    """

    samples: int = Field(default=64, ge=1)
    heldout_samples: int = Field(default=64, ge=1)
    evaluation_samples: int = Field(default=64, ge=1)
    selection: Selection = "random"
    deployment_samples: int = Field(default=200, ge=1)
    pool_samples: int = Field(default=400, ge=1)
    candidates: SourceConfig
    deployment: SourceConfig | None = None
    evaluation: SourceConfig | None = None
    preprocess: PreprocessConfig = PreprocessConfig()

    @model_validator(mode="after")
    def _something_to_match(self) -> SetConfig:
        if self.selection == "match" and self.deployment is None:
            raise ValueError("selection 'match' needs [set.deployment], which is what it matches")
        return self


class QuantizationConfig(Section):
    """How layers are quantized.

    Attributes:
        estimator: how the range of an activation is chosen.
        symmetric: true for activations with zero point 0.
        percentile: 0-100, the share of values that the percentile estimator keeps inside.
        weight_granularity: one weight scale per output channel, or one per tensor.
    """

    estimator: Estimator = "auto"
    symmetric: bool = False
    percentile: float = Field(default=99.99, gt=50.0, le=100.0)
    weight_granularity: Granularity = "per-channel"


class PinConfig(Section):
    """Groups whose precision is not searched but given.

    Attributes:
        pattern: shell-style pattern of group or layer names, such as ``*.layer.0.*``.
        role: all groups of a role.
        precision: what they run in.
    """

    pattern: str | None = None
    role: Role | None = None
    precision: Literal["int8", "fp16"] = "fp16"

    @model_validator(mode="after")
    def _one_way(self) -> PinConfig:
        if (self.pattern is None) == (self.role is None):
            raise ValueError("give exactly one of 'pattern' and 'role'")
        return self


class PlanConfig(Section):
    """Which layers stay in fp16.

    Attributes:
        policy: `auto` finds the cheapest set that meets the budget; `attention` keeps QKV groups
            and output projections in fp16; `none` makes everything INT8 that can be.
        pins: groups whose precision is given; the last one that matches a group counts.
        metric: what groups are ranked by. `cosine` of the outputs, higher is better;
            `relative_error`, ``||y - y'|| / ||y||``, lower is better; `kl`, the divergence of the
            softmax of the last axis, for logits, lower is better.
        samples: calibration samples that the search runs on.
    """

    policy: Policy = "auto"
    pins: tuple[PinConfig, ...] = ()
    metric: Metric = "cosine"
    samples: int = Field(default=64, ge=2)


class BudgetConfig(Section):
    """What the INT8 model must reach.

    Attributes:
        cosine_mean: least mean cosine of the int8 outputs to fp32 on the evaluation samples.
    """

    cosine_mean: float = Field(default=0.99, gt=0, le=1)


class TaskConfig(Section):
    """A task with labels that the three precisions are judged by.

    Attributes:
        kind: `similarity` correlates the cosine of two embeddings with a human score.
        source: the records, preprocessed as in `set.preprocess`.
        scores: an ``(n, n)`` matrix of scores, upper triangle used: a text or ``.npy`` file, or
            ``module:function`` that returns it.
    """

    kind: Literal["similarity"]
    source: SourceConfig
    scores: str


class RuntimeConfig(Section):
    """How models run on this machine.

    Attributes:
        provider: execution provider of onnxruntime.
        threads: number of threads inside an operator; 0 lets onnxruntime choose.
        batch: samples per inference of a model whose batch is free.
    """

    provider: Literal["cpu", "cuda", "cann"] = "cpu"
    threads: int = Field(default=0, ge=0)
    batch: int = Field(default=8, ge=1)


class AtcConfig(Section):
    """The conversion to an .om file.

    Attributes:
        executable: name or path of atc.
        options: further options of atc, without the leading dashes.
        timeout_s: seconds after which a conversion is ended.
    """

    executable: str = "atc"
    options: dict[str, str | int] = {}
    timeout_s: int = Field(default=3600, ge=1)


class Config(Section):
    """The whole configuration."""

    run: RunConfig = RunConfig()
    model: ModelConfig
    target: TargetConfig = TargetConfig()
    set: SetConfig
    quantization: QuantizationConfig = QuantizationConfig()
    plan: PlanConfig = PlanConfig()
    budget: BudgetConfig = BudgetConfig()
    task: TaskConfig | None = None
    runtime: RuntimeConfig = RuntimeConfig()
    atc: AtcConfig = AtcConfig()


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
        return self.resolve(self.config.run.directory)


def resolve_path(name: str, base: Path) -> Path:
    """Resolve a configured path: absolute, relative to `base`, or ``package:NAME/rest``.

    Raises:
        QuantflowError: QF104 when the package is not installed or the path leaves it.
    """
    if not name.startswith("package:"):
        path = Path(name).expanduser()
        return path if path.is_absolute() else base / path
    package, _, rest = name.removeprefix("package:").partition("/")
    # find_spec of a top-level package does not run its code.
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise QuantflowError(
            [Problem("QF104", f"Python package {package!r} is not installed", where=name)]
        )
    root = Path(spec.submodule_search_locations[0]).resolve()
    path = (root / rest).resolve()
    if not path.is_relative_to(root):
        raise QuantflowError([Problem("QF104", "path leaves the package", where=name)])
    return path


def load_config(path: Path, overrides: Sequence[str] = ()) -> LoadedConfig:
    """Read and check a configuration file.

    Args:
        path: the TOML file.
        overrides: ``section.key=value`` strings, applied in order.

    Raises:
        QuantflowError: QF101 to QF106, all problems at once.
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
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problem = Problem("QF101", f"not valid TOML: {error}", where=str(path))
        raise QuantflowError([problem]) from error
    wrong = [problem for text in overrides if (problem := _apply_override(tree, text))]
    if wrong:
        raise QuantflowError(wrong)
    return check_config(tree, base=path.resolve().parent, path=path)


def check_config(tree: Mapping[str, Any], *, base: Path, path: Path | None = None) -> LoadedConfig:
    """Check a configuration given as nested mappings; see `load_config`."""
    try:
        config = Config.model_validate(tree)
    except ValidationError as error:
        raise QuantflowError(list(_problems_of(error, tree, where=path))) from error
    missing = list(_missing_files(config, base))
    if missing:
        raise QuantflowError(missing)
    return LoadedConfig(config=config, base=base, path=path)


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
    except tomllib.TOMLDecodeError:
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
            yield Problem(
                "QF102", f"unknown key {name!r}", where=place, fix=did_you_mean(name, known)
            )
        else:
            message = entry["msg"].removeprefix("Value error, ")
            given = "" if entry["type"] == "missing" else f" (given: {entry['input']!r:.80})"
            messages.setdefault(place, []).append(message + given)
    for place, parts in messages.items():
        yield Problem("QF103", "; or: ".join(parts), where=place)


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
        "task.source.path": config.task.source if config.task else None,
    }
    named = {key: source.path for key, source in sources.items() if source}
    named["model.onnx"] = config.model.onnx
    named["set.preprocess.tokenizer"] = config.set.preprocess.tokenizer
    if config.task and ":" not in config.task.scores.removeprefix("package:"):
        named["task.scores"] = config.task.scores
    named |= {f"model.depends[{i}]": name for i, name in enumerate(config.model.depends)}
    for key, name in named.items():
        if name is None:
            continue
        try:
            path = resolve_path(name, base)
        except QuantflowError as error:
            yield from (replace(p, where=f"{key}: {p.where}") for p in error.problems)
            continue
        found = any(path.parent.glob(path.name)) if "*" in path.name else path.exists()
        if not found:
            yield Problem("QF104", f"no such file: {path}", where=key, fix="check the path")
