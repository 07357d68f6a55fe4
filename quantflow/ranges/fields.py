"""Receptive fields of a convolution: the rows that its weight multiplies, only those asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Window
from quantflow.ranges.part import Part

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Fields:
    """The receptive fields in some images.

    Attributes:
        images: ``(I, C, P)`` float32, the spatial axes as one.
        size: of the spatial axes.
        window: that slides over them.
    """

    images: NDArray[np.float32]
    size: tuple[int, ...]
    window: Window

    @property
    def outputs(self) -> tuple[int, ...]:
        """Number of positions of the window on every axis, padding included."""
        w, rank = self.window, len(self.size)
        reach = [(k - 1) * d + 1 for k, d in zip(w.kernel, w.dilations, strict=True)]
        padded = [self.size[i] + w.pads[i] + w.pads[rank + i] for i in range(rank)]
        return tuple(
            max((p - r) // s + 1, 0) for p, r, s in zip(padded, reach, w.strides, strict=True)
        )

    def take(self, places: Indices) -> NDArray[np.float32]:
        """The fields at ``(R,)`` places, counted through the images one after the other.

        Returns:
            ``(R, C * taps)`` float32, in the order of a weight ``(N, C, ...)``; zero where the
            window hangs over.
        """
        image, position = np.divmod(places, int(np.prod(self.outputs)))
        starts = np.unravel_index(position, self.outputs)
        taps = np.indices(self.window.kernel).reshape(len(self.size), -1)
        flat = np.zeros((len(places), taps.shape[1]), np.int64)
        inside = np.ones(flat.shape, bool)
        for axis, size in enumerate(self.size):
            first = starts[axis] * self.window.strides[axis] - self.window.pads[axis]
            at = first[:, None] + taps[axis] * self.window.dilations[axis]
            inside &= (at >= 0) & (at < size)
            flat = flat * size + np.clip(at, 0, size - 1)
        channels: Indices = np.arange(self.images.shape[1], dtype=np.int64)
        found = self.images[image[:, None, None], channels[:, None], flat[:, None, :]]
        # A product would make NaN of an infinite value at the border.
        found = np.where(inside[:, None, :], found, np.float32(0))
        return found.reshape(len(places), len(channels) * taps.shape[1])

    def middles(self) -> NDArray[np.float32]:
        """``(I, C, outputs)`` values in the middle of the window, at each of its positions."""
        places: Indices = np.ravel_multi_index(np.ix_(*self.centres()), self.size).ravel()
        return self.images[:, :, places]

    def centres(self) -> Sequence[Indices]:
        """Where the middle of the window lies at each of its positions, an array an axis."""
        w, found = self.window, list[Indices]()
        for axis, count in enumerate(self.outputs):
            middle = (w.kernel[axis] - 1) // 2 * w.dilations[axis] - w.pads[axis]
            at = np.arange(count) * w.strides[axis] + middle
            found.append(np.clip(at, 0, self.size[axis] - 1))
        return found


def fields_of(part: Part, window: Window) -> Fields:
    """The receptive fields of all samples of a part."""
    shape = part.values.shape
    images = part.values.reshape(-1, shape[2], int(np.prod(shape[3:])))
    return Fields(images, shape[3:], window)


def real_fields(part: Part, fields: Fields) -> NDArray[np.bool_] | None:
    """Which fields count, ``(n, fields per sample)``: those whose middle is no padding.

    None where nothing is padding.
    """
    if part.real is None:
        return None
    real = part.real.reshape(part.real.shape + (1,) * (part.values.ndim - part.real.ndim))
    images = part.values.shape[:2]
    spread = np.broadcast_to(real.any(axis=2), (*images, *fields.size))
    centres = np.ix_(*map(np.arange, images), *fields.centres())
    return spread[centres].reshape(images[0], -1)
