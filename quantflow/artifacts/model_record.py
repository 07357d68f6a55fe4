"""What stage 0 writes about the canonical model (`00_model/model.json`)."""

from __future__ import annotations

from typing import Literal

from quantflow.artifacts.given_record import GivenLayer
from quantflow.artifacts.record import Record
from quantflow.config import Role


class TensorInfo(Record):
    """An input or output of the model.

    Attributes:
        name: name of the value.
        dtype: numpy name of the element type.
        shape: one entry a dimension, the name of a free one.
        mask: true for the input that is 0 where a position is padding.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    mask: bool = False


class Window(Record):
    """How a convolution or pooling slides over its spatial axes, in the first bucket.

    Attributes:
        kernel, strides, dilations: one entry a spatial axis.
        pads: what is added before every axis, then after every axis.
        groups: number of groups that the channels fall into.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    groups: int = 1


class Layer(Record):
    """A MatMul, Gemm or convolution with a constant weight.

    With options that are off by default, also an AveragePool (no weight), and a MatMul of two
    variables (no weight, a second input).

    Attributes:
        name: module path where there is one, else the node's name; unique.
        node: name of the node that multiplies (equal to `name` but for clashes).
        op_type: ``MatMul``, ``Gemm``, ``Conv``, ``ConvTranspose`` or ``AveragePool``.
        role: what part it plays in the network.
        group: name of the group it falls back with.
        input: the activation it reads.
        weight: its weight initializer, or empty; ``(K, N)`` for MatMul and Gemm,
            ``(N, C / groups, ...)`` for Conv, ``(C, N / groups, ...)`` for ConvTranspose.
        bias: its 1-D bias initializer, if any.
        bias_node: the Add that applies the bias, where a node of its own does.
        output: the value after the bias.
        macs: multiply-accumulates for one sample in the first bucket; 0 without a weight.
        float_reason: why the layer cannot be INT8, or empty.
        window: of a convolution or pooling, else None.
        second_input: the other activation of a MatMul of two variables, else empty.
    """

    name: str
    node: str
    op_type: str
    role: Role
    group: str
    input: str
    weight: str
    bias: str | None
    bias_node: str | None
    output: str
    macs: int
    float_reason: str = ""
    window: Window | None = None
    second_input: str = ""


class Group(Record):
    """All layers that read one quantized tensor; they fall back to fp16 together.

    Attributes:
        name: common module path and the differing ends, such as ``attention.self.query+key+value``.
        tensor: the activation they read.
        role: that of its layers (`other` when they differ).
        layers: names of its layers, in graph order.
        macs: their sum.
    """

    name: str
    tensor: str
    role: Role
    layers: tuple[str, ...]
    macs: int


Layout = Literal["positions", "flat", "none"] | tuple[int, ...]
"""Where a mask's positions are in a tensor: `positions` for ``(batch, length, ...)``, `flat` for
``(batch * length, ...)``, `none` where the mask does not map and padding counts like any other
value. Else the axis of the batch (or of the batch merged with another one that comes after it),
then the axes along the length: ``(0, 2)`` for ``(batch, channels, length)``."""


class PaddedTensor(Record):
    """How the axes of a tensor relate to the attention mask.

    Attributes:
        tensor: name of the value.
        layout: see `Layout`.
    """

    tensor: str
    layout: Layout


class ModelRecord(Record):
    """The canonical model: its boundary, layers and groups.

    Attributes:
        opset: version of the one opset import.
        inputs, outputs: boundary of the model.
        layers: in graph order.
        groups: in graph order; only layers that can be INT8 are in one.
        padding: for every quantizable tensor, how padding is recognised in it.
        notes: what a person should know, such as If bodies that stay float.
        origin: the factory, or the name of the ONNX file; empty where it is not known.
        given: of a model that came quantized, how its INT8 layers were; empty for a float model.
    """

    opset: int
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    layers: tuple[Layer, ...]
    groups: tuple[Group, ...]
    padding: tuple[PaddedTensor, ...]
    notes: tuple[str, ...] = ()
    origin: str = ""
    given: tuple[GivenLayer, ...] = ()

    @property
    def tensors(self) -> tuple[str, ...]:
        """The quantized tensors: what groups read, then second inputs that no group reads."""
        second = (x.second_input for x in self.layers if x.second_input and not x.float_reason)
        return tuple(dict.fromkeys([*(group.tensor for group in self.groups), *second]))

    @property
    def mask(self) -> TensorInfo | None:
        """The input that marks padding, if there is one."""
        return next((tensor for tensor in self.inputs if tensor.mask), None)

    def layers_of(self, tensor: str) -> list[Layer]:
        """The quantizable layers that read `tensor`."""
        return [x for x in self.layers if x.input == tensor and not x.float_reason]

    def group_of(self, tensor: str) -> str:
        """Name of the group that falls back with a quantized tensor."""
        readers = (x for x in self.layers if tensor in (x.input, x.second_input))
        return next(x.group for x in readers if not x.float_reason)
