"""The sections of the configuration: frozen models that refuse unknown keys."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

Estimator = Literal["auto", "minmax", "percentile", "kl", "mse"]
Role = Literal["qkv", "attention_output", "ffn", "classifier", "conv", "other"]
Granularity = Literal["per-channel", "per-tensor"]
Policy = Literal["auto", "attention", "none"]
Metric = Literal["cosine", "sqnr", "relative_error", "kl", "perplexity", "agreement", "function"]
TaskKind = Literal[
    "similarity", "classification", "retrieval", "perplexity", "agreement", "function"
]
Selection = Literal["random", "match"]
TokenizerField = Literal["input_ids", "attention_mask", "token_type_ids"]
SourceKind = Literal["jsonl", "csv", "parquet", "text", "imagefolder", "dataset", "npz", "function"]
FunctionName = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
OptionalLayer = Literal["AveragePool", "MatMul"]
Size = Annotated[int, Field(strict=True, ge=1, lt=2**31)]
DimName = Annotated[str, Field(min_length=1)]
Flag = Annotated[bool, Field(strict=True)]


def _not_empty(value: tuple[Any, ...]) -> tuple[Any, ...]:
    # Unlike min_length, this says nothing when an item is wrong already.
    if not value:
        raise ValueError("must not be empty")
    return value


def _all_different(buckets: tuple[dict[str, int], ...]) -> tuple[dict[str, int], ...]:
    for index, bucket in enumerate(buckets):
        if bucket in buckets[:index]:
            raise ValueError(f"buckets {buckets.index(bucket)} and {index} are the same")
    return buckets


def _as_text(value: object) -> object:
    # A version without quotes is read as a number, on the command line above all.
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if number else value


class Section(BaseModel):
    """A table of the configuration: frozen, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RunConfig(Section):
    """Where results go."""

    directory: str = "run"
    seed: int = Field(strict=True, default=0, ge=0, lt=2**32)


class InputConfig(Section):
    """One input of the model.

    Attributes:
        dtype: numpy name of the element type; of an ONNX file's input, that of the file is taken
            where it is not given.
        shape: one entry a dimension; a number is fixed, a name is free and given by the bucket. The
            first dimension is the batch. Empty, which only an ONNX file's input can be: as in the
            file.
        mask: true for the input that is 0 where a position is padding. An input called
            ``attention_mask`` is one without being told.
    """

    dtype: Literal["float32", "float16", "int64", "int32", "uint8", "bool"] = "float32"
    shape: Annotated[tuple[Size | DimName, ...], AfterValidator(_not_empty)] = ()
    mask: Flag | None = None


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
        if self.factory is not None and (lacking := self._lacking()):
            raise ValueError("; ".join(lacking))
        names = [*self.inputs, *self.outputs]
        if not all(names) or len(set(names)) < len(names):
            raise ValueError("names of inputs and outputs must differ from each other")
        return self

    def _lacking(self) -> list[str]:
        """What an ONNX file would say, but a torch factory does not."""
        lacking: list[str] = []
        if not (self.inputs and self.outputs):
            lacking.append("a torch factory needs [model.inputs.NAME] tables and 'outputs'")
        if bare := [name for name, spec in self.inputs.items() if not spec.shape]:
            lacking.append(f"a torch factory needs a 'shape' for every input, also for {bare}")
        return lacking


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
    cann: Annotated[Literal["2026", "8.0"], BeforeValidator(_as_text)] = "2026"
    fp19_dequant: Flag = True
    buckets: Annotated[
        tuple[dict[DimName, Size], ...],
        AfterValidator(_not_empty),
        AfterValidator(_all_different),
    ] = ({"batch": 1},)


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
        tokenizer: path of a ``tokenizer.json``. It fills the inputs called like its fields, and the
            mask input whatever its name is.
        names: the tokenizer's field for every input that is called otherwise.
        column: column that holds the text; a source of kind `text` has its lines there.
        max_length: tokens kept of a text.
        pad: ``max_length`` pads every sample to that length; ``none`` leaves lengths as they are.
        function: ``module:function`` from record to arrays.
    """

    tokenizer: str | None = None
    names: dict[str, TokenizerField] = {}
    column: str = "text"
    max_length: int = Field(strict=True, default=128, ge=1)
    pad: Literal["max_length", "none"] = "max_length"
    function: FunctionName | None = None

    @model_validator(mode="after")
    def _one_way(self) -> PreprocessConfig:
        if self.tokenizer is not None and self.function is not None:
            raise ValueError("give 'tokenizer' or 'function', not both")
        if self.names and self.tokenizer is None:
            raise ValueError("'names' needs 'tokenizer', whose fields it maps to inputs")
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
        pool_samples: candidates that `match` chooses from; all of them when there are fewer. The
            model only runs on a shortlist of them.
        candidates: pool of the calibration set.
        deployment: what production sends. Without it, held-out samples are other candidates.
        profile: a file that `quantflow profile` made of what production sends, where the samples
            themselves cannot be had; the calibration set is compared with and matched to it.
        evaluation: what accuracy is measured on. Without it, other samples of `deployment`.
    """

    samples: int = Field(strict=True, default=64, ge=1)
    heldout_samples: int = Field(strict=True, default=64, ge=1)
    evaluation_samples: int = Field(strict=True, default=64, ge=1)
    selection: Selection = "random"
    deployment_samples: int = Field(strict=True, default=200, ge=1)
    pool_samples: int = Field(strict=True, default=400, ge=1)
    candidates: SourceConfig
    deployment: SourceConfig | None = None
    profile: str | None = None
    evaluation: SourceConfig | None = None
    preprocess: PreprocessConfig = PreprocessConfig()

    @model_validator(mode="after")
    def _something_to_match(self) -> SetConfig:
        if self.deployment is not None and self.profile is not None:
            raise ValueError(
                "give [set.deployment] or 'profile', which stands in for it, not both: take "
                "[set.deployment] out of the file"
            )
        if self.selection == "match" and self.deployment is None and self.profile is None:
            raise ValueError("selection 'match' needs [set.deployment] or 'profile' to match")
        return self


class OverrideConfig(Section):
    """Settings of `quantization` for some layers.

    What is left out stays as it is for all. Estimator, symmetry and percentile are those of the
    tensor that a layer reads, and so of all layers that read it; granularity is the layer's own.

    Attributes:
        pattern: shell-style pattern of group or layer names, such as ``*.layer.0.*``.
        role: all layers of a role.
        estimator, symmetric, percentile, weight_granularity: as in `QuantizationConfig`.
    """

    pattern: str | None = None
    role: Role | None = None
    estimator: Estimator | None = None
    symmetric: Flag | None = None
    percentile: Annotated[float, Field(strict=True, gt=50.0, le=100.0)] | None = None
    weight_granularity: Granularity | None = None

    @model_validator(mode="after")
    def _one_way(self) -> OverrideConfig:
        if (self.pattern is None) == (self.role is None):
            raise ValueError("give exactly one of 'pattern' and 'role'")
        if not self.settings:
            raise ValueError("it sets nothing: give an estimator, say")
        return self

    @property
    def settings(self) -> dict[str, Any]:
        """What it sets, by the name of the key."""
        return self.model_dump(exclude={"pattern", "role"}, exclude_none=True)


class QuantizationConfig(Section):
    """How layers are quantized.

    Attributes:
        estimator: how the range of an activation is chosen.
        symmetric: true for activations with zero point 0.
        percentile: 0-100, the share of values that the percentile estimator keeps inside.
        weight_granularity: one weight scale per output channel, or one per tensor; convolutions
            have one per output channel always.
        optional_layers: kinds of layers that are INT8 only when named here: average pooling, whose
            integer arithmetic is not verified, and MatMul of two variables, for chips that have it.
        overrides: other settings for some layers; the last one that matches a layer counts, key by
            key.
    """

    estimator: Estimator = "auto"
    symmetric: Flag = False
    percentile: float = Field(strict=True, default=99.99, gt=50.0, le=100.0)
    weight_granularity: Granularity = "per-channel"
    optional_layers: tuple[OptionalLayer, ...] = ()
    overrides: tuple[OverrideConfig, ...] = ()


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


class OptimizeConfig(Section):
    """What is done beyond ranges; each pass is kept only where it lowers the error.

    Attributes:
        smoothing: true to divide the channels of activations, and multiply the weights that read
            them, so that both lose little. The scales are folded into constants of the model.
        multiply: true to add a Mul in front of a layer where no constant can take the scale and the
            layer's error falls by half or more.
        rounding: true to round weights by the error of the layer's output, not to the nearest.
        bias_correction: true to let biases take up the mean of the output's error.
    """

    smoothing: Flag = True
    multiply: Flag = True
    rounding: Flag = True
    bias_correction: Flag = True


class PlanConfig(Section):
    """Which layers stay in fp16.

    Attributes:
        policy: `auto` finds groups to keep in fp16 that meet the budget and give up least of what
            INT8 saves; `attention` keeps QKV groups and output projections in fp16; `none` makes
            everything INT8 that can be.
        pins: groups whose precision is given; the last one that matches a group counts.
        metric: what groups are ranked by. `cosine` of the outputs, higher is better; `sqnr`, signal
            to noise in dB, higher is better; `relative_error`, ``||y - y'|| / ||y||``, lower is
            better; `kl`, the divergence of the softmax of the first output's last axis, for
            logits, lower is better; or the figure of the task of that kind: `perplexity`,
            `agreement`, `function`.
        samples: calibration samples that the search runs on.
        halving: true to measure all groups on a quarter of the samples, the worse half of them on
            half of the samples, and only the worst quarter on all; ties go on.
        boundary_macs: what one element quantized or dequantized at a layer's boundary is taken to
            cost, in INT8 multiply-accumulates.
        fp16_where_cheaper: true to put groups in fp16 whose INT8 is estimated to cost more than
            fp16, for their boundaries, whatever the accuracy.
    """

    policy: Policy = "auto"
    pins: tuple[PinConfig, ...] = ()
    metric: Metric = "cosine"
    samples: int = Field(strict=True, default=64, ge=2)
    halving: Flag = True
    boundary_macs: float = Field(strict=True, default=16.0, ge=0, allow_inf_nan=False)
    fp16_where_cheaper: Flag = False


TASK_DROP_KINDS: tuple[TaskKind, ...] = (
    "function",
    "classification",
    "retrieval",
    "similarity",
)
"""Kinds of tasks that `budget.task_drop` is for."""

COSINE_MEAN = 0.99
"""Least mean cosine where the budget says nothing about accuracy."""


class BudgetConfig(Section):
    """What the INT8 model must reach, on the held-out and on the evaluation samples.

    Attributes:
        cosine_mean: least mean cosine of the int8 outputs to fp32. 0.99 where no other accuracy is
            asked for that the sweep can measure.
        perplexity_rise_fraction: by what fraction of fp32's the perplexity of int8 may be larger,
            for a task of that kind.
        agreement_fraction: least share of decisions, 0-1, that int8 has in common with fp32, for a
            task of kind `agreement`.
        task_drop: by how much the task's figure may be worse than fp32's, in its own unit: the mean
            of the user's for a task of kind `function`; the top-1 accuracy as a share, 0-1, for
            `classification`; the mean reciprocal rank for `retrieval`; Spearman's correlation for
            `similarity`. Only the comparison can judge the last three, which have records of their
            own: the sweep goes by what else is asked, or by the cosine.
        int8_mac_fraction: least share of MACs, 0-1, that the plan leaves in INT8.
        fp16_groups: most groups that the plan puts in fp16.
    """

    cosine_mean: Annotated[float, Field(strict=True, gt=0, le=1)] | None = None
    perplexity_rise_fraction: Annotated[float, Field(strict=True, gt=0)] | None = None
    agreement_fraction: Annotated[float, Field(strict=True, gt=0, le=1)] | None = None
    task_drop: Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)] | None = None
    int8_mac_fraction: Annotated[float, Field(strict=True, ge=0, le=1)] | None = None
    fp16_groups: Annotated[int, Field(strict=True, ge=0)] | None = None


_TASK_NEEDS: dict[str, tuple[str, ...]] = {
    "similarity": ("source", "scores"),
    "classification": ("source", "labels"),
    "retrieval": ("queries", "documents"),
    "function": ("function", "higher_is_better"),
}
"""Keys of `TaskConfig` that a kind cannot do without."""
_TASK_MAY = {"retrieval": ("relevant",)}
_TASK_SOURCES = ("source", "queries", "documents")
_TASK_NUMBERS = ("scores", "labels", "relevant")


def _is_function(name: str) -> bool:
    return ":" in name.removeprefix("package:")


class TaskConfig(Section):
    """A task that the three precisions are judged by.

    Attributes:
        kind: `similarity` correlates the cosine of two embeddings with a human score;
            `classification` is the share of records whose highest score, along the last axis of
            the first output, is that of the label; `retrieval` is the mean reciprocal rank of every
            query's relevant document by the cosine of the first output; `perplexity` is that of a
            causal language model, whose first output is the logits of the next token, on the
            evaluation samples; `agreement` is the share of decisions, the highest along the last
            axis of the first output, that are those of fp32, on the evaluation samples; `function`
            is the mean of a user's own figure, on the evaluation samples.
        source: of `similarity` and `classification`: the records, preprocessed as in
            `set.preprocess`.
        scores: of `similarity`: an ``(n, n)`` matrix of scores, upper triangle used: a text or
            ``.npy`` file, or ``module:function`` that returns it.
        labels: of `classification`: the class of every record, ``(n,)`` whole numbers from 0: a
            text or ``.npy`` file, or ``module:function`` that returns them.
        queries, documents: of `retrieval`: the records, preprocessed as in `set.preprocess`.
        relevant: of `retrieval`: for every query the place of its document, from 0, given as
            `labels`; the i-th document where it is left out.
        tokens: of `perplexity`: the input that holds the token ids.
        function: of `function`: ``module:function`` that is given a sample's id, its inputs and its
            outputs, both dictionaries of arrays by name, and returns a number.
        higher_is_better: of `function`: which way that number points.
    """

    kind: TaskKind
    source: SourceConfig | None = None
    scores: str | None = None
    labels: str | None = None
    queries: SourceConfig | None = None
    documents: SourceConfig | None = None
    relevant: str | None = None
    tokens: str = "input_ids"
    function: FunctionName | None = None
    higher_is_better: Flag | None = None

    @model_validator(mode="after")
    def _what_the_kind_needs(self) -> TaskConfig:
        needs = _TASK_NEEDS.get(self.kind, ())
        known = (*_TASK_SOURCES, *_TASK_NUMBERS, "function", "higher_is_better")
        given = [key for key in known if getattr(self, key) is not None]
        lacking = [key for key in needs if key not in given]
        if lacking:
            raise ValueError(f"kind '{self.kind}' needs {', '.join(map(repr, lacking))}")
        extra = [x for x in given if x not in (*needs, *_TASK_MAY.get(self.kind, ()))]
        data = [key for key in extra if key in (*_TASK_SOURCES, *_TASK_NUMBERS)]
        if data and not self.sources:
            what = ", ".join(map(repr, data))
            raise ValueError(f"kind '{self.kind}' reads the evaluation samples: leave out {what}")
        if extra:
            raise ValueError(f"kind '{self.kind}' has no {', '.join(map(repr, extra))}")
        return self

    @property
    def sources(self) -> dict[str, SourceConfig]:
        """The records of its own that the kind reads, by key; empty for evaluation samples."""
        asked = [key for key in _TASK_NEEDS.get(self.kind, ()) if key in _TASK_SOURCES]
        found = {key: getattr(self, key) for key in asked}
        return {key: source for key, source in found.items() if source is not None}

    @property
    def numbers(self) -> dict[str, str]:
        """What names numbers that belong to these records: files or functions, by key."""
        found = {f"task.{key}": getattr(self, key) for key in _TASK_NUMBERS}
        return {key: name for key, name in found.items() if name is not None}

    @property
    def number_files(self) -> dict[str, str]:
        """Those of `numbers` that are files."""
        return {key: name for key, name in self.numbers.items() if not _is_function(name)}

    @property
    def functions(self) -> dict[str, str]:
        """The functions it names that judge what models give, by key: no early stage calls them."""
        own = {"task.function": self.function} if self.function is not None else {}
        return own | {key: name for key, name in self.numbers.items() if _is_function(name)}

    @property
    def token_input(self) -> str | None:
        """The input that holds token ids, for a task that reads them."""
        return self.tokens if self.kind == "perplexity" else None


class RuntimeConfig(Section):
    """How models run on this machine.

    Attributes:
        provider: execution provider of onnxruntime.
        threads: number of threads inside an operator; 0 lets onnxruntime choose.
        batch: samples per inference of a model whose batch is free.
    """

    provider: Literal["cpu", "cuda", "cann"] = "cpu"
    threads: int = Field(strict=True, default=0, ge=0, le=1024)
    batch: int = Field(strict=True, default=8, ge=1)


class AtcConfig(Section):
    """The conversion to an .om file.

    Attributes:
        executable: name or path of atc.
        options: further options of atc, without the leading dashes. A boolean becomes 1 or 0 where
            the option takes those, else true or false; files start at the configuration.
        timeout_s: seconds after which a conversion is ended.
        baseline: whether the fp16 model that the INT8 one replaces is converted too, to compare
            both on an NPU.
        probes: whether tiny models are converted beside an INT8 one that ask the chip what could
            only be assumed of it.
        parallel: conversions at a time; each takes several processes and GBs of memory.
    """

    executable: str = "atc"
    options: dict[str, str | Flag | Annotated[int, Field(strict=True)]] = {}
    timeout_s: int = Field(strict=True, default=3600, ge=1)
    baseline: bool = True
    probes: bool = True
    parallel: int = Field(strict=True, default=1, ge=1, le=16)


class Config(Section):
    """The whole configuration."""

    run: RunConfig = RunConfig()
    model: ModelConfig
    target: TargetConfig = TargetConfig()
    set: SetConfig
    quantization: QuantizationConfig = QuantizationConfig()
    optimize: OptimizeConfig = OptimizeConfig()
    plan: PlanConfig = PlanConfig()
    budget: BudgetConfig = BudgetConfig()
    task: TaskConfig | None = None
    runtime: RuntimeConfig = RuntimeConfig()
    atc: AtcConfig = AtcConfig()

    @property
    def task_sources(self) -> dict[str, SourceConfig]:
        """Where the task's own records come from, by key; empty where it has none."""
        found = self.task.sources if self.task else {}
        return {f"task.{key}": source for key, source in found.items()}

    @model_validator(mode="after")
    def _tokens_are_integers(self) -> Config:
        if self.set.preprocess.tokenizer is None:
            return self
        for name, given in self.model.inputs.items():
            field = self.set.preprocess.names.get(name, name)
            of_file = self.model.factory is None and "dtype" not in given.model_fields_set
            wrong = "float" in given.dtype and not of_file
            if wrong and field in ("input_ids", "token_type_ids"):
                raise ValueError(
                    f"the tokenizer fills {name!r} with integers: its [model.inputs.{name}] takes "
                    "dtype = 'int64'"
                )
        return self

    @model_validator(mode="after")
    def _figures_have_their_task(self) -> Config:
        budget, kind = self.budget, self.task.kind if self.task else ""
        rows: tuple[tuple[str, float | None, tuple[str, ...]], ...] = (
            ("budget.perplexity_rise_fraction", budget.perplexity_rise_fraction, ("perplexity",)),
            ("budget.agreement_fraction", budget.agreement_fraction, ("agreement",)),
            ("budget.task_drop", budget.task_drop, TASK_DROP_KINDS),
        )
        asked = dict[tuple[str, ...], list[str]]()
        if self.plan.metric in ("perplexity", "agreement", "function"):
            asked[(self.plan.metric,)] = [f"plan.metric = '{self.plan.metric}'"]
        for key, value, kinds in rows:
            if value is not None:
                asked.setdefault(kinds, []).append(key)
        if kind in ("classification", "retrieval", "similarity") and (budget.task_drop or 0) > 1:
            raise ValueError(
                f"budget.task_drop = {budget.task_drop} allows any drop: the figure of {kind!r} is "
                "at most 1, so half a point is 0.005"
            )
        for kinds, keys in asked.items():
            if kind not in kinds:
                *most, last = map(repr, kinds)
                either = f"{', '.join(most)} or {last}" if most else last
                raise ValueError(f"{' and '.join(keys)} needs [task] with kind = {either}")
        return self
