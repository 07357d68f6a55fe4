"""The whole configuration, and what its sections ask of each other."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from quantflow.config.model import ModelConfig
from quantflow.config.plan import BudgetConfig, PlanConfig
from quantflow.config.quantization import OptimizeConfig, QuantizationConfig
from quantflow.config.section import Flag, Section
from quantflow.config.set import SetConfig, SourceConfig
from quantflow.config.target import TargetConfig
from quantflow.config.task import TASK_DROP_KINDS, TaskConfig


class RunConfig(Section):
    """Where results go."""

    directory: str = "run"
    seed: int = Field(strict=True, default=0, ge=0, lt=2**32)


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
    options: dict[str, str | Flag | Annotated[int, Field(strict=True)]] = Field(default={})
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
