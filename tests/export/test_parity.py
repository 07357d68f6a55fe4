"""Parity passes for what export writes and fails for every kind of difference."""

import numpy as np
import pytest
from onnx import helper

from quantflow.export.parity import parity
from tests.export.builders import array_of, export, node_of, onnx_model

RNG = np.random.default_rng(11)


def chain():
    """a reads x; b and c read a's output, which a also gives to the graph; d is in fp16."""
    nodes = [
        helper.make_node("MatMul", ["x", "wa"], ["pa"], name="a"),
        helper.make_node("Add", ["pa", "ba"], ["h"], name="a_bias"),
        helper.make_node("MatMul", ["h", "wb"], ["hb"], name="b"),
        helper.make_node("MatMul", ["h", "wc"], ["pc"], name="c"),
        helper.make_node("Add", ["pc", "bc"], ["hc"], name="c_bias"),
        helper.make_node("Mul", ["hb", "hc"], ["m"], name="m"),
        helper.make_node("MatMul", ["m", "wd"], ["y"], name="d"),
    ]
    constants = {
        name: RNG.normal(size=shape).astype(np.float32)
        for name, shape in {"wa": (8, 16), "ba": (16,), "wb": (16, 8), "wc": (16, 8), "bc": (8,),
                            "wd": (8, 4)}.items()
    }  # fmt: skip
    return onnx_model(nodes, {"x": [4, 30, 8]}, ["y", "h"], constants)


def made():
    return export(chain(), {"x": (-3.0, 3.0), "h": (-12.0, 9.0), "m": (-1, 1)}, fp16=["d"])


def feeds(count=2):
    return [{"x": RNG.normal(size=(4, 30, 8)).astype(np.float32)} for _ in range(count)]


def report(exported, batches=None):
    return parity(exported.model, exported.deploy, exported.qdq, exported.record, exported.factors,
                  batches or feeds())  # fmt: skip


def test_what_export_writes_passes():
    result = report(made())
    assert result.verdict == "pass" and result.cosine_min >= 0.99999
    assert [row.layer for row in result.layers] == ["a", "b", "c"]
    assert all(row.int32_exact and row.int8_equal_fraction >= 0.99999 for row in result.layers)


def edit(exported, name, change):
    value = exported.deploy.graph.initializers[name]
    array = np.array(value.const_value.numpy())
    change(array)
    value.const_value = type(value.const_value)(array, name=name)


def test_one_changed_weight_or_bias_step_is_an_inexact_accumulator():
    for name in ("b/weight_int8", "c/bias_int32"):
        exported = made()

        def step(array):
            array.flat[3] += 1 if array.flat[3] < 100 else -1

        edit(exported, name, step)
        result = report(exported)
        assert result.verdict == "fail"
        wrong = [row.layer for row in result.layers if not row.int32_exact]
        assert wrong == [name[0]]


def test_a_changed_dequantization_scale_is_a_lower_cosine():
    exported = made()

    def double_one(array):
        bits = array.astype(np.uint32).view(np.float32)
        bits[0] *= 2
        array[:] = bits.view(np.uint32)

    edit(exported, "a/deq_scale", double_one)
    result = report(exported)
    rows = {row.layer: row for row in result.layers}
    assert result.verdict == "fail" and rows["a"].cosine < 0.99999 and rows["a"].int32_exact
    assert rows["b"].cosine >= 0.99999


@pytest.mark.parametrize(("name", "factor", "shift"), [("scale", 1.01, 0), ("offset", 1, 1)])
def test_a_changed_quantization_is_seen_in_the_int8_input(name, factor, shift):
    exported = made()
    quant = node_of(exported.deploy, "AscendQuant")
    attribute = quant.attributes[name]
    quant.attributes[name] = type(attribute)(name, attribute.type, attribute.value * factor + shift)
    result = report(exported)
    rows = {row.layer: row for row in result.layers}
    assert result.verdict == "fail" and rows["a"].int8_equal_fraction < 0.9
    assert rows["b"].int8_equal_fraction == 1


def test_a_rounding_tie_in_a_small_tensor_is_no_failure():
    # A scale whose float32 reciprocal is off, and the value of a tie: x * (1 / s) and x / s differ.
    exported = made()
    scale = np.float32(exported.factors_of("a").scale_d)
    ties = ((np.arange(-120, 120) + 0.5) * scale).astype(np.float32)
    around = np.concatenate([np.nextafter(ties, np.float32(s)) for s in (-9e9, 9e9)] + [ties])
    product = np.rint(around * (np.float32(1) / scale))
    flips = around[product != np.rint(around / scale)]
    assert len(flips)
    x = np.zeros((4, 30, 8), np.float32)
    x[0, 0, 0] = flips[0]
    x[1:] = RNG.normal(size=(3, 30, 8))
    result = report(exported, [{"x": x}])
    row = next(row for row in result.layers if row.layer == "a")
    assert row.int8_equal_fraction == 1 - 1 / x.size < 0.99999
    assert result.verdict == "pass" and row.int32_exact


def test_a_model_without_int8_layers_passes_with_no_rows():
    exported = export(chain(), {"x": (-3, 3), "h": (-9, 9), "m": (-1, 1)},
                      fp16=["a", "b+c", "d"])  # fmt: skip
    result = report(exported)
    assert result.verdict == "pass" and result.layers == () and result.cosine_min == 1
    assert array_of(exported.deploy, "wa").dtype == np.float32
