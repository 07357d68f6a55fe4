"""What is configured for every tensor and layer: the settings for all, and the overrides of some.

Estimator, symmetry and percentile belong to a tensor, since all layers that read it share one
AscendQuant. Granularity belongs to a layer's weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from quantflow.artifacts.model_record import Layer, ModelRecord
from quantflow.config import Estimator, Granularity, OverrideConfig, QuantizationConfig
from quantflow.errors import Problem, QuantflowError, did_you_mean

PER_CHANNEL_ONLY: Final = frozenset(("Conv", "ConvTranspose"))
"""Op types whose weight scales the dialect knows per output channel only."""

_TENSOR_KEYS: Final = ("estimator", "symmetric", "percentile")


@dataclass(frozen=True, slots=True)
class TensorSettings:
    """How the range of one tensor is chosen.

    Attributes:
        estimator, symmetric, percentile: as in `QuantizationConfig`.
        origin: the overrides that set something, or empty.
    """

    estimator: Estimator
    symmetric: bool
    percentile: float
    origin: str = ""


@dataclass(frozen=True, slots=True)
class LayerSettings:
    """What is configured.

    Attributes:
        tensors: by name of the tensor, for every tensor that is quantized.
        granularity: of the weight scales, by name of the layer, for every layer that can be INT8.
    """

    tensors: Mapping[str, TensorSettings]
    granularity: Mapping[str, Granularity]


class _Given(NamedTuple):
    """A value that an override gives, and which one."""

    value: Any
    where: str


_Overridden = dict[str, dict[str, _Given]]
"""By layer, then by key."""


def layer_settings(record: ModelRecord, config: QuantizationConfig) -> LayerSettings:
    """Settle `quantization` and its overrides for every tensor and layer.

    A pattern is matched against names of layers and of their groups; of several overrides for a
    layer the last one counts, key by key. What an override sets for one layer of a tensor holds
    for all that read it.

    Raises:
        QuantflowError: QF511 for an override that matches nothing, with near names; QF512 for one
            that cannot have an effect, and for layers of one tensor that are told different things.
    """
    layers = [layer for layer in record.layers if layer.group]
    overridden: _Overridden = {layer.name: {} for layer in layers}
    problems = list[Problem]()
    if record.given and config.overrides:
        what = "the model came quantized, and keeps the scales of its file"
        fix = "remove the overrides, or give the float model"
        problems.append(Problem("QF512", what, "quantization.overrides", fix))
    for index, override in enumerate(config.overrides):
        where = f"quantization.overrides[{index}]"
        found = [layer for layer in layers if _matches(layer, override)]
        problems += _useless(record, override, found, where)
        for layer in found:
            given = {key: _Given(value, where) for key, value in override.settings.items()}
            overridden[layer.name] |= given
    for tensor in record.tensors:
        problems += _conflicts(tensor, _readers(layers, tensor), overridden)
    if problems:
        raise QuantflowError(problems)
    return LayerSettings(
        tensors={x: _tensor(_readers(layers, x), overridden, config) for x in record.tensors},
        granularity={x.name: _granularity(x, overridden[x.name], config) for x in layers},
    )


def _matches(layer: Layer, override: OverrideConfig) -> bool:
    if override.pattern is None:
        return layer.role == override.role
    return any(fnmatchcase(name, override.pattern) for name in (layer.name, layer.group))


def _readers(layers: Sequence[Layer], tensor: str) -> list[Layer]:
    return [layer for layer in layers if tensor in (layer.input, layer.second_input)]


def _useless(
    record: ModelRecord, override: OverrideConfig, found: Sequence[Layer], where: str
) -> Iterator[Problem]:
    """What keeps an override from having an effect."""
    if not found and override.pattern is not None:
        what = f"no layer or group that can be INT8 matches {override.pattern!r}"
        yield Problem("QF511", what, where, _near(record, override))
    elif not found:
        roles = ", ".join(sorted({layer.role for layer in record.layers if layer.group}))
        what = f"no layer that can be INT8 has the role {override.role!r}"
        yield Problem("QF511", what, where, f"roles here: {roles}")
    elif override.weight_granularity == "per-tensor" and not any(map(_is_free, found)):
        what = "the weight scales of these layers are not per-tensor: " + _list(found)
        fix = "remove weight_granularity: convolutions have a scale per output channel always"
        yield Problem("QF512", what, where, fix)


def _near(record: ModelRecord, override: OverrideConfig) -> str:
    """Why a layer of that name stays float, else names that are near."""
    for layer in record.layers:
        if layer.float_reason and fnmatchcase(layer.name, override.pattern or ""):
            return f"{layer.name} stays float: {layer.float_reason}"
    layers = [layer for layer in record.layers if layer.group]
    names = [name for layer in layers for name in (layer.name, layer.group)]
    return did_you_mean((override.pattern or "").strip("*"), names)


def _is_free(layer: Layer) -> bool:
    """Whether the layer's weight scales may be one for all channels."""
    return bool(layer.weight) and layer.op_type not in PER_CHANNEL_ONLY


def _conflicts(tensor: str, readers: Sequence[Layer], overridden: _Overridden) -> Iterator[Problem]:
    for key in _TENSOR_KEYS:
        told = {x.name: overridden[x.name][key] for x in readers if key in overridden[x.name]}
        if len({given.value for given in told.values()}) > 1:
            said = ", ".join(f"{name} {given.value}" for name, given in told.items())
            what = f"layers that read {tensor!r} share its {key}, and are told: {said}"
            where = ", ".join(dict.fromkeys(given.where for given in told.values()))
            fix = "let the last override match all of them, by the name of their group"
            yield Problem("QF512", what, where, fix)
    for given in _asymmetric(readers, overridden):
        what = f"{tensor!r} is read by a MatMul of two variables, which must be symmetric"
        yield Problem("QF512", what, given.where, "remove symmetric = false")


def _asymmetric(readers: Sequence[Layer], overridden: _Overridden) -> list[_Given]:
    """What asks for a zero point where there can be none."""
    if not any(layer.second_input for layer in readers):
        return []
    told = [overridden[x.name]["symmetric"] for x in readers if "symmetric" in overridden[x.name]]
    return [given for given in told if not given.value][:1]


def _tensor(
    readers: Sequence[Layer], overridden: _Overridden, config: QuantizationConfig
) -> TensorSettings:
    told = {key: g for x in readers for key, g in overridden[x.name].items() if key in _TENSOR_KEYS}
    values = {key: getattr(config, key) for key in _TENSOR_KEYS}
    values |= {key: given.value for key, given in told.items()}
    if any(layer.second_input for layer in readers):
        values["symmetric"] = True
    origin = ", ".join(f"{key} by {told[key].where}" for key in _TENSOR_KEYS if key in told)
    return TensorSettings(**values, origin=origin)


def _granularity(
    layer: Layer, overridden: Mapping[str, _Given], config: QuantizationConfig
) -> Granularity:
    if layer.op_type in PER_CHANNEL_ONLY:
        return "per-channel"
    given = overridden.get("weight_granularity")
    return given.value if given is not None else config.weight_granularity


def _list(layers: Sequence[Layer]) -> str:
    names = ", ".join(layer.name for layer in layers[:3])
    return names + (", ..." if len(layers) > 3 else "")
