"""What a chip is asked about INT8, and what it answers under each assumption.

Everything is computed here in numpy, from the definition of each hypothesis and not by the lowering
that the rest of quantflow uses: ``q = clip(rint(x * scale) + offset)``, an int32 sum of products,
times the scale of the output channel. Inputs and sums are small integers and scales powers of two,
so that what is assumed comes out exact in fp16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

ROWS, DEPTH, COLUMNS = 16, 32, 64
"""Shape of the products: ``(1, ROWS, DEPTH) @ (DEPTH, COLUMNS)``."""


@dataclass(frozen=True, slots=True)
class ProbeCase:
    """A layer, an input, and what it gives under each hypothesis.

    Attributes:
        name: of the files.
        question: what it answers.
        op_type: ``MatMul`` or ``Conv`` (3 by 3, padded by 1 on each side).
        weight: ``(DEPTH, COLUMNS)`` or ``(C_out, C_in, 3, 3)`` int8.
        scale: ``(1,)`` or one a column or output channel, float32: AscendDequant's.
        offset: AscendQuant's, whose scale is 1.
        x: the input, exact in fp16.
        hypotheses: by name, what the output is. The first one is what quantflow assumes.
        meanings: of every other one, what follows from it.
    """

    name: str
    question: str
    op_type: str
    weight: NDArray[np.int8]
    scale: Array
    offset: int
    x: Array
    hypotheses: Mapping[str, Array]
    meanings: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def assumed(self) -> str:
        """The hypothesis that the rest of quantflow relies on."""
        return next(iter(self.hypotheses))


def _per_channel() -> ProbeCase:
    rng = np.random.default_rng(1)
    x, weight = _integers(rng, 8), _weight(rng)
    scale = (2.0 ** -(2 + np.arange(COLUMNS) % 5)).astype(np.float32)
    sums = x.astype(np.int64) @ weight.astype(np.int64)
    return ProbeCase(
        "probe_per_channel",
        "does AscendDequant of a MatMul take one scale per output channel?",
        "MatMul", weight, scale, 0, x,
        {
            "one scale per output channel": _float(sums * scale),
            "the first scale for all channels": _float(sums * scale[0]),
        },
        {
            "the first scale for all channels": "every INT8 MatMul is wrong: set "
            'quantization.weight_granularity = "per-tensor" and export again',
        },
    )  # fmt: skip


def _matmul_offset() -> ProbeCase:
    rng = np.random.default_rng(2)
    x, weight, offset = _integers(rng, 8), _weight(rng), -37
    total = weight.astype(np.int64).sum(axis=0)
    sums = x.astype(np.int64) @ weight.astype(np.int64)
    scale = np.array([0.25], np.float32)
    read = "MatMuls that read asymmetric activations are wrong"
    wrong = f"{read}: set quantization.symmetric = true and export again"
    return ProbeCase(
        "probe_matmul_offset",
        "is the offset of an activation made up for in a MatMul?",
        "MatMul", weight, scale, offset, x,
        {
            "made up for": _float(sums * scale),
            "not made up for": _float((sums + offset * total) * scale),
            "added a second time": _float((sums + 2 * offset * total) * scale),
        },
        {"not made up for": wrong, "added a second time": wrong},
    )  # fmt: skip


def _conv_offset() -> ProbeCase:
    rng = np.random.default_rng(3)
    x = rng.integers(-4, 5, (1, 16, 8, 8)).astype(np.float32)
    weight = rng.integers(-3, 8, (16, 16, 3, 3)).astype(np.int8)
    offset, scale = 21, np.full(16, 0.5, np.float32)
    total = weight.astype(np.int64).sum(axis=(1, 2, 3)).reshape(1, -1, 1, 1)
    q = x.astype(np.int64) + offset
    by_offset, by_zero = _convolved(q, weight, offset), _convolved(q, weight, 0)
    symmetric = "set quantization.symmetric = true and export again"
    return ProbeCase(
        "probe_conv_padding",
        "is a convolution padded with the offset of its activation, and the offset made up for?",
        "Conv", weight, scale, offset, x,
        {
            "padded with the offset, made up for": _float((by_offset - offset * total) * 0.5),
            "padded with 0, made up for": _float((by_zero - offset * total) * 0.5),
            "padded with the offset, not made up for": _float(by_offset * 0.5),
            "padded with 0, not made up for": _float(by_zero * 0.5),
        },
        {
            "padded with 0, made up for": f"the borders of convolutions are wrong: {symmetric}",
            "padded with the offset, not made up for": f"convolutions are shifted: {symmetric}",
            "padded with 0, not made up for": f"convolutions are wrong: {symmetric}",
        },
    )  # fmt: skip


def _scale_bits() -> ProbeCase:
    """Sums of 1792 to 2032, scales of 1 and of ``1 + 2^-10 - 2^-23``: its lower 13 bits are set.

    Cut to FP19 the second is 1 as well and the output is the sum. Else the output is 1.75 to 2
    more, where fp16 has steps of 1: no rounding of the output takes one for the other.
    """
    x, weight = np.zeros((1, ROWS, DEPTH), np.float32), np.zeros((DEPTH, COLUMNS), np.int8)
    x[0, :, :16] = 112 + np.arange(ROWS)[:, None]
    weight[:16] = 1
    exact = np.repeat(x.sum(axis=2, keepdims=True), COLUMNS, axis=2).astype(np.float64)
    scale = np.ones(COLUMNS, np.float32)
    scale[16:] = np.float32(1 + 2.0**-10 - 2.0**-23)
    full = "float32, or rounded to FP19"
    return ProbeCase(
        "probe_scale_bits",
        "are the lower 13 bits of AscendDequant's scale dropped (FP19)?",
        "MatMul", weight, scale, 0, x,
        {
            "cut to FP19": _float(exact),
            full: _float(exact * scale.astype(np.float64)),
        },
        {
            full: "figures of int8 are of scales that are cut, which this chip does not do: set "
            "target.fp19_dequant = false",
        },
    )  # fmt: skip


def _rounding() -> ProbeCase:
    halves = (np.arange(ROWS * DEPTH) % 64 - 32) + 0.5
    x = halves.reshape(1, ROWS, DEPTH).astype(np.float32)
    weight = np.eye(DEPTH, COLUMNS, dtype=np.int8)

    def through(q: NDArray[Any]) -> Array:
        return _float(q @ weight)

    rounded = "values halfway between two integers are rounded another way than in the figures of"
    note = f"{rounded} int8, which are then approximate; nothing needs to be set"
    others = {
        "half away from zero": np.sign(x) * np.floor(np.abs(x) + 0.5),
        "half up": np.floor(x + 0.5),
        "towards zero": np.trunc(x),
    }
    return ProbeCase(
        "probe_rounding",
        "does AscendQuant round halves to even?",
        "MatMul", weight, np.ones(1, np.float32), 0, x,
        {"half to even": through(np.rint(x))} | {k: through(q) for k, q in others.items()},
        dict.fromkeys(others, note),
    )  # fmt: skip


_CASES: Final[tuple[Callable[[], ProbeCase], ...]] = (
    _per_channel,
    _matmul_offset,
    _conv_offset,
    _scale_bits,
    _rounding,
)


@cache
def probe_cases() -> tuple[ProbeCase, ...]:
    """All questions; the same in every process."""
    return tuple(make() for make in _CASES)


def _integers(rng: np.random.Generator, most: int) -> Array:
    return rng.integers(-most, most + 1, (1, ROWS, DEPTH)).astype(np.float32)


def _weight(rng: np.random.Generator) -> NDArray[np.int8]:
    """Not centred on 0, so that an offset shows in every column."""
    return rng.integers(-2, 6, (DEPTH, COLUMNS)).astype(np.int8)


def _convolved(q: NDArray[np.int64], weight: NDArray[np.int8], padding: int) -> NDArray[np.int64]:
    """Sums of a 3 by 3 convolution of stride 1 over an image that is padded with a value."""
    padded = np.pad(q, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=padding)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("bchwij,ocij->bohw", windows, weight.astype(np.int64))


def _float(values: NDArray[Any]) -> Array:
    return values.astype(np.float32)
