"""A mask's positions are found wherever the axes of a tensor put them, or it is said that not."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from quantflow.artifacts.model_record import Layout, PaddedTensor
from quantflow.graph.padding import map_padding, padding_notes
from tests.graph.models import build
from tests.graph.test_layers import described, rand

CHANGES: dict[str, tuple[str, Layout, bool]] = {
    "channels first": ("t = Transpose<perm=[0,2,1]>(x)", (0, 2), True),
    "length first": ("t = Transpose<perm=[1,0,2]>(x)", (1, 0), True),
    "heads": ("h = Reshape(x, heads) t = Transpose<perm=[0,2,1,3]>(h)", (0, 2), True),
    "keys": ("h = Reshape(x, heads) t = Transpose<perm=[0,2,3,1]>(h)", (0, 3), True),
    "batch and heads as one": (
        "h = Reshape(x, heads) s = Transpose<perm=[0,2,1,3]>(h) n = Shape(x) "
        "l = Slice(n, one, two, zero) f = Concat<axis=0>(minus, l, two) t = Reshape(s, f)",
        (0, 1),
        True,
    ),
    "attention scores": ("s = Transpose<perm=[0,2,1]>(x) t = MatMul(x, s)", (0, 1, 2), True),
    "positions": ("t = Relu(x)", "positions", True),
    "all rows": ("t = Reshape(x, rows)", "flat", True),
    "length merged with the width": ("t = Flatten(x)", "none", False),
    "pooled": ("t = ReduceMean<keepdims=0>(x, one)", "none", True),
    "windows of the length": ("t = Reshape(x, pairs)", "none", False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_layout_is_that_of_the_axes(name: str) -> None:
    change, layout, mapped = CHANGES[name]
    constants = {
        "heads": np.int64([0, 0, 2, 2]),
        "rows": np.int64([-1, 4]),
        "pairs": np.int64([0, -1, 2]),
        "zero": np.int64([0]),
        "one": np.int64([1]),
        "two": np.int64([2]),
        "minus": np.int64([-1]),
    }
    used = {key: value for key, value in constants.items() if key in change}
    model = build(
        f"(float[batch,length,4] x, int64[batch,length] m) => (float[a,b] y) "
        f"{{ {change} y = Sigmoid(t) }}",
        used,
        opset=18,
    )
    found, unmapped = map_padding(ir.from_proto(model), "m", ["t"])
    assert found == {"t": layout}
    assert unmapped == ([] if mapped else ["t"])
    record = PaddedTensor(tensor="t", layout=layout)
    assert PaddedTensor.model_validate_json(record.to_json()) == record


def test_what_the_mask_does_not_map_to_is_said() -> None:
    model = build(
        "(float[batch,length,4] x, int64[batch,length] m) => (float[batch,n,4] y) "
        "{ t = Reshape(x, pairs) y = MatMul(t, w) }",
        {"pairs": np.int64([0, -1, 2]), "w": rand(2, 4)},
    )
    record = described(model, mask="m", batch=1, length=6)
    assert [note for note in record.notes if "does not map to t" in note]
    assert padding_notes([]) == []
    assert "a, b, c, d, e and 2 more" in padding_notes(list("abcdefg"))[0]


def test_a_fixed_length_is_not_looked_for_at_other_axes() -> None:
    model = build(
        "(float[batch,4,4] x, int64[batch,4] m) => (float[batch,2,4,2] y) "
        "{ h = Reshape(x, heads) t = Transpose<perm=[0,2,1,3]>(h) y = Relu(t) }",
        {"heads": np.int64([0, 0, 2, 2])},
    )
    found, unmapped = map_padding(ir.from_proto(model), "m", ["t", "x"])
    assert found == {"t": "none", "x": "positions"}
    assert unmapped == ["t"]
