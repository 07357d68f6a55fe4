"""The configuration: one TOML file, checked as a whole before any work starts."""

from quantflow.config.loading import LoadedConfig, check_config, load_config
from quantflow.config.model import InputConfig, ModelConfig
from quantflow.config.paths import resolve_path
from quantflow.config.plan import COSINE_MEAN, BudgetConfig, Metric, PinConfig, PlanConfig, Policy
from quantflow.config.quantization import (
    Estimator,
    Granularity,
    OptimizeConfig,
    OptionalLayer,
    OverrideConfig,
    QuantizationConfig,
)
from quantflow.config.section import DimName, FunctionName, Role, Section, Size
from quantflow.config.set import (
    PreprocessConfig,
    Selection,
    SetConfig,
    SourceConfig,
    SourceKind,
    TokenizerField,
)
from quantflow.config.target import TargetConfig
from quantflow.config.task import TASK_DROP_KINDS, TaskConfig, TaskKind
from quantflow.config.whole import AtcConfig, Config, RunConfig, RuntimeConfig

__all__ = [
    "COSINE_MEAN",
    "TASK_DROP_KINDS",
    "AtcConfig",
    "BudgetConfig",
    "Config",
    "DimName",
    "Estimator",
    "FunctionName",
    "Granularity",
    "InputConfig",
    "LoadedConfig",
    "Metric",
    "ModelConfig",
    "OptimizeConfig",
    "OptionalLayer",
    "OverrideConfig",
    "PinConfig",
    "PlanConfig",
    "Policy",
    "PreprocessConfig",
    "QuantizationConfig",
    "Role",
    "RunConfig",
    "RuntimeConfig",
    "Section",
    "Selection",
    "SetConfig",
    "Size",
    "SourceConfig",
    "SourceKind",
    "TargetConfig",
    "TaskConfig",
    "TaskKind",
    "TokenizerField",
    "check_config",
    "load_config",
    "resolve_path",
]
