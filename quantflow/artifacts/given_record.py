"""How a layer was quantized in the file that the model came from."""

from __future__ import annotations

from quantflow.artifacts.record import Record


class GivenLayer(Record):
    """A layer that was INT8 in the file, in a form that Ascend computes.

    Attributes:
        layer: its name.
        scale_d: scale of its input, a float32 value.
        offset_d: zero point of its input, int8; uint8 is less 128.
        scale_w: scales of its weight, one or one per output channel. The float weight divided by
            them is the file's integers.
    """

    layer: str
    scale_d: float
    offset_d: int
    scale_w: tuple[float, ...]
