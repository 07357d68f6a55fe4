"""Random small float models over every kind of layer, with random attributes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclass
class RandomGraph:
    """A model that grows node by node; the last value is what the next node reads.

    `shape` is that of the last value, kept by inference on the model so far.
    """

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    last: str = "x"
    input_shape: tuple[int, ...] = ()

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def count(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def constant(self, stem: str, array: np.ndarray) -> str:
        """A new constant or, now and then, one of before that has its kind and shape."""
        for name, old in self.constants.items():
            alike = name.rstrip("0123456789") == stem and old.shape == array.shape
            if alike and self.chance(0.3):
                return name
        name = f"{stem}{len(self.constants)}"
        self.constants[name] = array
        return name

    def add(self, op_type: str, inputs: list[str], **attributes) -> None:
        output = f"v{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(op_type, inputs, [output], name=f"n{len(self.nodes)}", **attributes)
        )
        self.last = output

    @property
    def shape(self) -> tuple[int, ...]:
        if self.last == "x":
            return self.input_shape
        proto = onnx.shape_inference.infer_shapes(self.proto(), strict_mode=True)
        (value,) = [v for v in (*proto.graph.value_info, *proto.graph.output)
                    if v.name == self.last][:1]  # fmt: skip
        return tuple(d.dim_value for d in value.type.tensor_type.shape.dim)

    def proto(self, opset: int = 17) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.input_shape)],
            [helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)],
                                 ir_version=9)  # fmt: skip


def random_graph(seed: int) -> RandomGraph:
    """A model of one to four layers with nonlinearities between them."""
    rng = np.random.default_rng(seed)
    spatial = (0, 2, 0, 2, 1, 2, 3)[seed % 7]  # number of spatial axes
    graph = RandomGraph(rng)
    if spatial:
        sizes = [graph.count(5, 9) for _ in range(spatial)]
        graph.input_shape = (graph.count(1, 2), graph.pick(2, 3, 4, 6), *sizes)
    else:
        graph.input_shape = graph.pick((3, 6), (2, 3, 4), (1, 2, 3, 5))
    if spatial == 2 and graph.chance(0.4):
        _conv_transpose(graph, plain=True)
    else:
        (_conv if spatial else graph.pick(_matmul, _gemm))(graph)
    for _ in range(graph.count(0, 3)):
        _between(graph)
        _layer(graph, spatial)
    _between(graph)
    return graph


def _layer(graph: RandomGraph, spatial: int) -> None:
    if not spatial:
        graph.pick(_matmul, _matmul_left, _gemm, _gemm, _pair, _pair)(graph)
    elif spatial == 2:
        graph.pick(_conv, _conv, _conv_transpose, _conv_transpose, _average, _average)(graph)
    else:
        graph.pick(_conv, _conv, _conv, _conv_transpose)(graph)


def _between(graph: RandomGraph) -> None:
    match graph.count(0, 5):
        case 0:
            graph.add("Relu", [graph.last])
        case 1:
            low, high = np.float32(0), np.float32(6)
            graph.add("Clip", [graph.last, graph.constant("low", low),
                               graph.constant("high", high)])  # fmt: skip
        case 2 if graph.nodes[-1].op_type.startswith("Conv"):
            _batch_norm(graph)
        case 3:
            graph.add("Add", [graph.last, graph.last])


def _weight(graph: RandomGraph, *shape: int, axis: int) -> np.ndarray:
    """Normal values; at times with channels that are dead, tiny or large."""
    scale = 1 / np.sqrt(max(np.prod(shape) / shape[axis], 1))
    weight = graph.rng.normal(size=shape) * scale
    if graph.chance(0.25):
        factors = graph.rng.choice([0.0, 1e-42, 1e-12, 1e-3, 1.0, 30.0], size=shape[axis])
        weight *= factors.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return weight.astype(np.float32)


def _bias(graph: RandomGraph, size: int) -> np.ndarray:
    return (graph.rng.normal(size=size) * graph.pick(0.1, 3.0)).astype(np.float32)


def _matmul(graph: RandomGraph) -> None:
    width = graph.count(1, 7)
    weight = graph.constant("w", _weight(graph, graph.shape[-1], width, axis=1))
    graph.add("MatMul", [graph.last, weight])
    if graph.chance(0.6):
        operands = [graph.last, graph.constant("b", _bias(graph, width))]
        graph.add("Add", operands if graph.chance(0.5) else operands[::-1])


def _matmul_left(graph: RandomGraph) -> None:
    """Stays float."""
    weight = _weight(graph, graph.count(1, 4), graph.shape[-2], axis=0)
    graph.add("MatMul", [graph.constant("w", weight), graph.last])


def _pair(graph: RandomGraph) -> None:
    axes = list(range(len(graph.shape)))
    axes[-2:] = axes[:-3:-1]
    left = graph.last
    graph.add("Transpose", [graph.last], perm=axes)
    graph.add("MatMul", [left, graph.last])


def _gemm(graph: RandomGraph) -> None:
    if len(graph.shape) != 2:
        graph.add("Flatten", [graph.last], axis=1)
    rows, inner = graph.shape
    attributes: dict = {}
    if graph.chance(0.3):
        attributes["transA"] = 1
        rows, inner = inner, rows
    width = graph.count(1, 7)
    weight = _weight(graph, inner, width, axis=1)
    if graph.chance(0.5):
        attributes["transB"] = 1
        weight = np.ascontiguousarray(weight.T)
    for name in ("alpha", "beta"):
        if graph.chance(0.3):
            attributes[name] = float(graph.pick(0.5, 2.0, -1.5))
    inputs = [graph.last, graph.constant("w", weight)]
    if graph.chance(0.7):
        inputs.append(graph.constant("b", _bias(graph, width)))
    graph.add("Gemm", inputs, **attributes)


def _padding(graph: RandomGraph, kernel: list[int], most: int) -> dict:
    mode = graph.pick("none", "pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    if mode == "pads":
        before = [graph.count(0, min(k - 1, most)) for k in kernel]
        after = [graph.count(0, k - 1 - pad) for k, pad in zip(kernel, before, strict=True)]
        return {"pads": before + after}
    return {} if mode == "none" else {"auto_pad": mode}


def _conv(graph: RandomGraph) -> None:
    _, channels, *sizes = graph.shape
    kernel = [graph.count(1, min(3, size)) for size in sizes]
    group = graph.pick(1, 1, channels, *(g for g in (2, 3) if channels % g == 0))
    width = group * graph.count(1, 3)
    weight = _weight(graph, width, channels // group, *kernel, axis=0)
    attributes = {"group": group, **_padding(graph, kernel, 2)}
    if graph.chance(0.5):
        attributes["kernel_shape"] = kernel
    if graph.chance(0.4):
        attributes["strides"] = [graph.count(1, 2) for _ in sizes]
    # onnxruntime does not run a dilated convolution that pads by name in every version.
    if "auto_pad" not in attributes and graph.chance(0.4):
        room = [(size - 1) // max(k - 1, 1) for size, k in zip(sizes, kernel, strict=True)]
        attributes["dilations"] = [graph.count(1, min(2, max(r, 1))) for r in room]
    inputs = [graph.last, graph.constant("w", weight)]
    if graph.chance(0.6):
        inputs.append(graph.constant("b", _bias(graph, width)))
    graph.add("Conv", inputs, **attributes)


def _conv_transpose(graph: RandomGraph, *, plain: bool = False) -> None:
    """In 1-D and 3-D, and dilated, it stays float, as do some that pad by name; `plain` never."""
    _, channels, *sizes = graph.shape
    kernel = [graph.count(1, 3) for _ in sizes]
    group = graph.pick(1, channels, *(g for g in (2, 3) if channels % g == 0))
    width = graph.count(1, 3)
    strides = [graph.count(1, 2) for _ in sizes]
    attributes: dict = {"group": group, "strides": strides}
    padding = _padding(graph, kernel, 1)
    attributes |= {} if plain and "auto_pad" in padding else padding
    if attributes.get("auto_pad", "NOTSET") == "NOTSET" and graph.chance(0.4):
        attributes["output_padding"] = [graph.count(0, s - 1) for s in strides]
    if not plain and "auto_pad" not in attributes and graph.chance(0.15):
        attributes["dilations"] = [2] * len(sizes)
    weight = _weight(graph, channels, width, *kernel, axis=1)
    inputs = [graph.last, graph.constant("w", weight)]
    if graph.chance(0.6):
        inputs.append(graph.constant("b", _bias(graph, width * group)))
    graph.add("ConvTranspose", inputs, **attributes)


def _average(graph: RandomGraph) -> None:
    """Stays float where it divides by another number at the border."""
    sizes = graph.shape[2:]
    kernel = [graph.count(1, min(3, size)) for size in sizes]
    attributes = {"kernel_shape": kernel, **_padding(graph, kernel, 1)}
    attributes["strides"] = [graph.count(1, min(2, k)) for k in kernel]
    attributes["count_include_pad"] = graph.count(0, 1)
    graph.add("AveragePool", [graph.last], **attributes)


def _batch_norm(graph: RandomGraph) -> None:
    channels = graph.shape[1]
    parts = {
        "scale": graph.rng.uniform(0.5, 2, channels),
        "shift": graph.rng.normal(size=channels),
        "mean": graph.rng.normal(size=channels),
        "variance": graph.rng.uniform(0.1, 2, channels),
    }
    names = [graph.constant(stem, array.astype(np.float32)) for stem, array in parts.items()]
    graph.add("BatchNormalization", [graph.last, *names])
