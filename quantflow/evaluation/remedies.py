"""What to do about a cause: the command that acts on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Final

from quantflow.artifacts.diagnosis_record import Cause
from quantflow.config import Config, PinConfig
from quantflow.evaluation.attribution import Evidence
from quantflow.evaluation.experiments import NEAREST, PER_CHANNEL

NAMED = 2
"""Features that are named where the candidates are unlike deployment."""


@dataclass(frozen=True, slots=True)
class State:
    """What has been done already.

    Attributes:
        config: the configuration.
        optimized, swept: whether these stages have run.
        lacks_islands: whether the plan leaves out islands that fp16 asks for.
        given: whether the model came quantized, and keeps the scales of its file.
        groups: the INT8 groups, most harmful first.
        unlike: what the set still differs in from deployment, worst first, where it was matched
            and the drift gate has failed all the same.
        tighter: mean cosine to ask of a plan, where the one asked for is met and is not enough.
    """

    config: Config
    optimized: bool
    swept: bool
    lacks_islands: bool
    given: bool
    groups: Sequence[str]
    unlike: Sequence[str] = ()
    tighter: float | None = None


def next_step(state: State, called: Mapping[Cause, Evidence]) -> str:
    """The command for the cause that is named, or for a loss that is spread over all layers."""
    for cause, evidence in called.items():
        return _REMEDIES[cause](state, evidence)
    return _more(state)


def _fp16(state: State, _: Evidence) -> str:
    # An edited plan may lack islands; a new one has them.
    return "quantflow sweep --force" if state.lacks_islands else "quantflow show fp16"


def _data(state: State, _: Evidence) -> str:
    sets = state.config.set
    if sets.deployment is None:
        return f"quantflow build-set --set set.samples={2 * sets.samples}"
    if sets.selection != "match":
        return "quantflow build-set --set set.selection=match"
    if state.unlike:  # no choice among these candidates helps
        names = " and ".join(f"`{x}`" for x in state.unlike[:NAMED])
        more = f"give [set.candidates] samples more like deployment, in {names} above all"
        return f"{more}, then quantflow build-set"
    return f"quantflow build-set --set set.pool_samples={2 * sets.pool_samples}"


def _ranges(state: State, evidence: Evidence) -> str:
    estimator = evidence.name.removesuffix(" ranges")
    command = f"quantflow calibrate --set quantization.estimator={estimator}"
    overridden = any(x.estimator for x in state.config.quantization.overrides)
    first = "take the estimators out of quantization.overrides, then "
    return first + command if overridden else command


def _weights(state: State, evidence: Evidence) -> str:
    if evidence.name == PER_CHANNEL:
        command = "quantflow calibrate --set quantization.weight_granularity=per-channel"
        overridden = any(x.weight_granularity for x in state.config.quantization.overrides)
        first = "take weight_granularity out of quantization.overrides, then "
        return first + command if overridden else command
    if evidence.name == NEAREST:
        return "quantflow optimize --set optimize.rounding=false"
    return _more(state)


def _layers(state: State, evidence: Evidence) -> str:
    if not state.swept and state.config.plan.policy == "auto":
        return "quantflow sweep"
    pins = [*state.config.plan.pins]
    pins += [PinConfig(pattern=_literal(x)) for x in state.groups[: evidence.groups[0]]]
    told = ", ".join(map(_toml, pins))
    return f"quantflow sweep --set {quote(f'plan.pins=[{told}]')}"


def _more(state: State) -> str:
    """What lowers the error of all layers, then what looks for those to leave in fp16."""
    if not state.optimized and not state.given:
        return "quantflow optimize"
    if state.config.plan.policy != "auto":
        return "quantflow sweep --set plan.policy=auto"
    if state.tighter is not None:
        return f"quantflow sweep --set budget.cosine_mean={state.tighter}"
    return "quantflow show curve" if state.swept else "quantflow sweep"


def _literal(name: str) -> str:
    """A pattern that matches this name alone."""
    return "".join(f"[{x}]" if x in "*?[" else x for x in name)


def _toml(pin: PinConfig) -> str:
    where = "pattern" if pin.pattern is not None else "role"
    told = {where: pin.pattern or pin.role or "", "precision": pin.precision}
    texts = (x.replace("\\", "\\\\").replace('"', '\\"') for x in told.values())
    return "{ " + ", ".join(f'{k} = "{x}"' for k, x in zip(told, texts, strict=True)) + " }"


_REMEDIES: Final[Mapping[Cause, Callable[[State, Evidence], str]]] = {
    "fp16": _fp16,
    "data": _data,
    "ranges": _ranges,
    "weights": _weights,
    "layers": _layers,
    "activations": lambda state, _: _more(state),
}
