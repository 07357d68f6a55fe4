# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""A profile on disk: one safetensors file, equal bytes for equal data.

Names and single numbers are JSON in the file's header, and with them a digest of all content;
arrays of counts have the smallest type that holds them. Extremes of activations are the upper
halves of float32 values, which is all that is kept of them.

A profile may come from elsewhere, so nothing in it is trusted.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.record import Record
from quantflow.calibration.profile.arrays import Arrays, check_shape, counts, floats, smallest
from quantflow.calibration.profile.binning import BINS, EDGES
from quantflow.calibration.profile.kernel import FREQUENCIES, KernelSketch
from quantflow.calibration.profile.profile import Profile, TensorProfile
from quantflow.calibration.profile.profile_check import check_profile
from quantflow.calibration.profile.refusal import refuse
from quantflow.calibration.profile.rounding import rounded_histogram
from quantflow.errors import fail
from quantflow.printable import printable
from quantflow.ranges.grid import BINS as VALUE_BINS
from quantflow.ranges.grid import Histogram

_FORMAT = "quantflow profile"
_KEY = f"{_FORMAT} 2"


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
    distinct: int
    effective: float
    model: str
    source: str
    tensors: tuple[str, ...]
    kernels: dict[str, _Kernel]
    sha256: str = ""


def save_profile(path: Path, profile: Profile) -> None:
    """Write a profile; `load_profile` gives back exactly what was written."""
    kernels = {"inputs": profile.inputs, "joint": profile.joint}
    header = _Header(
        names=profile.names,
        inputs=len(profile.inputs.names),
        counts=tuple(profile.counts),
        categories=tuple(profile.categories),
        samples=profile.samples,
        distinct=profile.distinct,
        effective=profile.effective,
        model=profile.model,
        source=profile.source,
        tensors=tuple(profile.tensors),
        kernels={name: _numbers(kernel) for name, kernel in kernels.items()},
    )
    arrays: dict[str, NDArray[Any]] = {
        "edges": profile.edges,
        "centres": profile.centres,
        "scalars": smallest(profile.scalars),
        **{f"counts/{name}": smallest(x) for name, x in profile.counts.items()},
        **{f"categories/{name}": smallest(x) for name, x in profile.categories.items()},
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
    header = header.model_copy(update={"sha256": _content_digest(header, arrays)})
    write_atomically(path, save(arrays, {_KEY: header.to_json()}))


def load_profile(path: Path) -> Profile:
    """Read a profile.

    Raises:
        QuantflowError: QF313 when the file is missing, damaged or no profile.
    """
    try:
        return _read(path)
    except ValidationError as error:
        reason = f"its header is no profile's: {error.errors()[0]['msg']}"
    except KeyError as error:
        reason = f"it lacks {error}"
    # safetensors raises AttributeError for types that numpy lacks.
    except (OSError, SafetensorError, ValueError, TypeError, AttributeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
    return fail(
        "QF313",
        f"not a deployment profile: {printable(reason)}",
        where=str(path),
        fix="make one with `quantflow profile`",
    )


def _read(path: Path) -> Profile:
    # A device or a pipe would be waited for.
    refuse(path.exists() and not path.is_file(), "it is no regular file")
    with safe_open(path, framework="numpy") as stream:
        metadata = stream.metadata() or {}
        if _KEY not in metadata:
            other = any(key.startswith(_FORMAT) for key in metadata)
            raise ValueError(
                "another version of quantflow has made it"
                if other
                else "it has no header of a profile"
            )
        header = _Header.model_validate_json(metadata[_KEY])
        arrays = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
    if header.sha256 != _content_digest(header, arrays):
        raise ValueError("it is damaged: its content is not what its digest says")
    for names in (header.names, header.counts, header.categories, header.tensors):
        refuse(len(set(names)) < len(names), "two things have one name")
    refuse(not 0 < header.inputs <= len(header.names), "its number of inputs is impossible")
    profile = _profile(header, arrays)
    check_profile(profile)
    return profile


def _content_digest(header: _Header, arrays: Arrays) -> str:
    """SHA-256 of the header but for the digest, and of all arrays."""
    found = sha256(header.model_copy(update={"sha256": ""}).to_json().encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def _profile(header: _Header, arrays: Arrays) -> Profile:
    """The profile, its arrays of the types and shapes that the header says."""
    features = len(header.names)
    scalars = counts(arrays["scalars"], ("blocks", features, BINS))
    blocks = len(scalars)
    joint = _sketch(header.names, header.kernels["joint"], "joint", arrays, blocks)
    names = header.names[: header.inputs]
    return Profile(
        names=header.names,
        edges=floats(arrays["edges"], (features, EDGES)),
        centres=floats(arrays["centres"], (features, BINS)),
        scalars=scalars,
        counts={x: counts(arrays[f"counts/{x}"], (blocks, "things")) for x in header.counts},
        categories={
            x: counts(arrays[f"categories/{x}"], (blocks, "categories")) for x in header.categories
        },
        inputs=_sketch(names, header.kernels["inputs"], "inputs", arrays, blocks),
        joint=joint,
        samples=header.samples,
        distinct=header.distinct,
        effective=header.effective,
        model=header.model,
        source=printable(header.source),
        tensors={name: _tensor(name, arrays, header.samples) for name in header.tensors},
    )


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
    return KernelSketch(
        names=names,
        centre=floats(arrays[f"{place}/centre"], (len(names),), finite=True),
        spread=floats(arrays[f"{place}/spread"], (len(names),), finite=True),
        width=numbers.width,
        edge=numbers.edge,
        least_density=numbers.least_density,
        sums=floats(arrays[f"{place}/sums"], (blocks, dimensions), np.float32, finite=True),
        sizes=counts(arrays[f"{place}/sizes"], (blocks,)),
        tail=floats(arrays[f"{place}/tail"], (dimensions,), np.float32, finite=True),
        tail_size=numbers.tail_size,
    )


def _tensor_arrays(tensor: TensorProfile) -> dict[str, NDArray[Any]]:
    bins = np.flatnonzero(tensor.histogram.counts)
    return {
        "bins": bins.astype(np.uint16),
        "counts": smallest(tensor.histogram.counts[bins]),
        "inf": np.array([tensor.histogram.inf], np.int64),
        "low": _upper_half(tensor.sample_low),
        "high": _upper_half(tensor.sample_high),
    }


def _tensor(name: str, arrays: Arrays, samples: int) -> TensorProfile:
    bins, occupied, inf, low, high = (
        arrays[f"tensors/{name}/{part}"] for part in ("bins", "counts", "inf", "low", "high")
    )
    for array, shape in ((bins, ("bins",)), (low, (samples,)), (high, (samples,))):
        check_shape(array, shape)
        refuse(array.dtype != np.uint16, f"bins cannot be {array.dtype}")
    occupied = counts(occupied, bins.shape)
    refuse((occupied <= 0).any(), "an occupied bin must be positive")
    refuse((bins[1:] <= bins[:-1]).any(), "bins of activations do not ascend")
    dense = np.zeros(VALUE_BINS, np.int64)
    dense[bins] = occupied
    infinite = int(counts(inf, (1,))[0])
    return TensorProfile(
        histogram=rounded_histogram(Histogram(dense, np.inf, -np.inf, infinite)),
        sample_low=_values(low),
        sample_high=_values(high),
    )


def _upper_half(values: NDArray[np.float64]) -> NDArray[np.uint16]:
    """Bin of every value, of those that `towards_zero` gives."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def _values(upper: NDArray[np.uint16]) -> NDArray[np.float64]:
    return (upper.astype(np.uint32) << 16).view(np.float32).astype(np.float64) + 0.0
