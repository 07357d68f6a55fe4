# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""A profile on disk: one safetensors file, equal bytes for equal data.

Names and single numbers are JSON in the file's header; arrays of counts have the smallest type that
holds them. A profile may come from elsewhere, so nothing in it is trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.record import Record
from quantflow.calibration.profile.binning import BINS, EDGES
from quantflow.calibration.profile.kernel import FREQUENCIES, KernelSketch
from quantflow.calibration.profile.profile import Profile, TensorProfile
from quantflow.errors import fail
from quantflow.ranges.histogram_file import from_arrays, to_arrays

_KEY = "quantflow profile 1"

Arrays = Mapping[str, NDArray[Any]]


class _Kernel(Record):
    """The single numbers of a `KernelSketch`."""

    width: float
    edge: float
    least_density: float
    tail_size: int


class _Header(Record):
    """What a profile's header holds."""

    names: tuple[str, ...]
    inputs: int
    counts: tuple[str, ...]
    categories: tuple[str, ...]
    samples: int
    effective: float
    model: str
    source: str
    tensors: tuple[str, ...]
    kernels: dict[str, _Kernel]


def save_profile(path: Path, profile: Profile) -> None:
    """Write a profile; `load_profile` gives back exactly what was written."""
    kernels = {"inputs": profile.inputs, "joint": profile.joint}
    header = _Header(
        names=profile.names,
        inputs=len(profile.inputs.names),
        counts=tuple(profile.counts),
        categories=tuple(profile.categories),
        samples=profile.samples,
        effective=profile.effective,
        model=profile.model,
        source=profile.source,
        tensors=tuple(profile.tensors),
        kernels={name: _numbers(kernel) for name, kernel in kernels.items()},
    )
    arrays: dict[str, NDArray[Any]] = {
        "edges": profile.edges,
        "centres": profile.centres,
        "scalars": _smallest(profile.scalars),
        **{f"counts/{name}": _smallest(x) for name, x in profile.counts.items()},
        **{f"categories/{name}": _smallest(x) for name, x in profile.categories.items()},
        **{
            f"{name}/{part}": array
            for name, kernel in kernels.items()
            for part, array in _arrays(kernel).items()
        },
        **{
            f"tensors/{name}/{part}": array
            for name, tensor in profile.tensors.items()
            for part, array in _tensor_arrays(tensor).items()
        },
    }
    write_atomically(path, save(arrays, {_KEY: header.to_json()}))


def load_profile(path: Path) -> Profile:
    """Read a profile.

    Raises:
        QuantflowError: QF313 when the file is missing, damaged or no profile.
    """
    try:
        with safe_open(path, framework="numpy") as stream:
            text = (stream.metadata() or {}).get(_KEY)
            if text is None:
                raise ValueError("it has no header of a profile of this version")
            arrays = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
        return _profile(_Header.model_validate_json(text), arrays)
    except ValidationError as error:
        reason = f"its header is no profile's: {error.errors()[0]['msg']}"
    except KeyError as error:
        reason = f"it lacks {error}"
    except (OSError, SafetensorError, ValueError, TypeError) as error:
        reason = str(error)
    return fail(
        "QF313",
        f"not a deployment profile: {reason}",
        where=str(path),
        fix="make one with `quantflow profile`",
    )


def _profile(header: _Header, arrays: Arrays) -> Profile:
    """The profile, its arrays checked against the header."""
    features = len(header.names)
    scalars = _counts(arrays["scalars"], ("blocks", features, BINS))
    blocks = len(scalars)
    joint = _sketch(header.names, header.kernels["joint"], "joint", arrays, blocks)
    names = header.names[: header.inputs]
    profile = Profile(
        names=header.names,
        edges=_floats(arrays["edges"], (features, EDGES)),
        centres=_floats(arrays["centres"], (features, BINS)),
        scalars=scalars,
        counts={x: _counts(arrays[f"counts/{x}"], (blocks, "things")) for x in header.counts},
        categories={
            x: _counts(arrays[f"categories/{x}"], (blocks, "categories")) for x in header.categories
        },
        inputs=_sketch(names, header.kernels["inputs"], "inputs", arrays, blocks),
        joint=joint,
        samples=header.samples,
        effective=header.effective,
        model=header.model,
        source=header.source,
        tensors={name: _tensor(name, arrays, header.samples) for name in header.tensors},
    )
    _check(profile)
    return profile


def _check(profile: Profile) -> None:
    """Raise ValueError for numbers that do not agree."""
    sizes = profile.block_sizes
    if profile.samples < 1 or int(sizes.sum()) != profile.samples:
        raise ValueError("its blocks do not add up to its samples")
    if not 0 < profile.effective <= profile.samples:
        raise ValueError("its effective number of samples is impossible")
    if (profile.scalars.sum(axis=2) != sizes[:, None]).any():
        raise ValueError("its histograms do not add up to its samples")
    if any((found.sum(axis=1) != sizes).any() for found in profile.categories.values()):
        raise ValueError("its categories do not add up to its samples")
    if any(found.sum() == 0 for found in profile.counts.values()):
        raise ValueError("its counts are empty")
    if (profile.edges[:, 1:] < profile.edges[:, :-1]).any():
        raise ValueError("its bins do not ascend")


def _numbers(kernel: KernelSketch) -> _Kernel:
    return _Kernel(
        width=kernel.width,
        edge=kernel.edge,
        least_density=kernel.least_density,
        tail_size=kernel.tail_size,
    )


def _arrays(kernel: KernelSketch) -> dict[str, NDArray[Any]]:
    return {
        "centre": kernel.centre,
        "spread": kernel.spread,
        "sums": kernel.sums,
        "sizes": kernel.sizes,
        "tail": kernel.tail,
    }


def _sketch(
    names: tuple[str, ...], numbers: _Kernel, place: str, arrays: Arrays, blocks: int
) -> KernelSketch:
    dimensions = 2 * FREQUENCIES
    if not (numbers.width > 0 and np.isfinite(numbers.width)):
        raise ValueError("its kernel has no width")
    return KernelSketch(
        names=names,
        centre=_floats(arrays[f"{place}/centre"], (len(names),), finite=True),
        spread=_floats(arrays[f"{place}/spread"], (len(names),), finite=True),
        width=numbers.width,
        edge=numbers.edge,
        least_density=numbers.least_density,
        sums=_floats(arrays[f"{place}/sums"], (blocks, dimensions), np.float32, finite=True),
        sizes=_counts(arrays[f"{place}/sizes"], (blocks,)),
        tail=_floats(arrays[f"{place}/tail"], (dimensions,), np.float32, finite=True),
        tail_size=numbers.tail_size,
    )


def _tensor_arrays(tensor: TensorProfile) -> dict[str, NDArray[Any]]:
    parts = to_arrays(tensor.histogram)
    return {
        **parts,
        "counts": _smallest(parts["counts"]),
        # Extremes of float32 values.
        "low": tensor.sample_low.astype(np.float32),
        "high": tensor.sample_high.astype(np.float32),
        "channel_absmax": tensor.channel_absmax,
    }


def _tensor(name: str, arrays: Arrays, samples: int) -> TensorProfile:
    def part(key: str) -> NDArray[Any]:
        return arrays[f"tensors/{name}/{key}"]

    bins, absmax = part("bins"), part("channel_absmax")
    counts = _counts(part("counts"), (bins.size,))
    return TensorProfile(
        histogram=from_arrays(bins, counts, part("extremes"), part("inf")),
        sample_low=_floats(part("low"), (samples,), np.float32).astype(np.float64),
        sample_high=_floats(part("high"), (samples,), np.float32).astype(np.float64),
        channel_absmax=_floats(absmax, (absmax.size,), np.float32),
    )


def _smallest(counts: NDArray[np.int64]) -> NDArray[Any]:
    """The counts in the smallest unsigned type that holds them."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))


def _counts(array: NDArray[Any], shape: tuple[int | str, ...]) -> NDArray[np.int64]:
    _check_shape(array, shape)
    if array.dtype.kind not in "iu" or (array.dtype.kind == "i" and (array < 0).any()):
        raise ValueError(f"counts cannot be {array.dtype}")
    if array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise ValueError("a count is impossible")
    return array.astype(np.int64)


def _floats(
    array: NDArray[Any],
    shape: tuple[int | str, ...],
    dtype: type[np.floating[Any]] = np.float64,
    *,
    finite: bool = False,
) -> NDArray[Any]:
    _check_shape(array, shape)
    if array.dtype != dtype or (finite and not np.isfinite(array).all()):
        raise ValueError(f"unexpected numbers of type {array.dtype}")
    return array


def _check_shape(array: NDArray[Any], shape: tuple[int | str, ...]) -> None:
    """A size that is given by name is free."""
    fits = len(array.shape) == len(shape) and all(
        isinstance(wanted, str) or wanted == found
        for wanted, found in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise ValueError(f"an array has shape {array.shape}, expected {shape}")
