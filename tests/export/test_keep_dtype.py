"""--keep_dtype names what exists after atc's parser, never anything else (C43)."""

import numpy as np
from onnx import helper

from quantflow.export.keep_dtype import keep_dtype
from tests.export.builders import export, onnx_model

RNG = np.random.default_rng(5)


def network():
    nodes = [
        helper.make_node("Pow", ["x", "two"], ["sq"], name="pow"),
        helper.make_node("ReduceMean", ["sq"], ["m"], name="mean", axes=[-1]),
        helper.make_node("Div", ["x", "m"], ["d"], name="div"),
        helper.make_node("LayerNormalization", ["d", "g"], ["n"], name="norm"),
        helper.make_node("MatMul", ["n", "w"], ["p"], name="layer"),
        helper.make_node("Add", ["p", "b"], ["s"], name="layer_bias"),
        helper.make_node("Gemm", ["s", "w", "b"], ["t"], name="gemm"),
        helper.make_node("Gemm", ["t", "w"], ["u"], name="plain"),
        helper.make_node("ReduceMin", ["u"], ["v"], name="least", axes=[-1]),
        helper.make_node("Clip", ["v", "zero"], ["y"], name="clip"),
    ]
    constants = {
        "two": np.array(2, np.float32), "zero": np.array(0, np.float32),
        "g": np.ones(4, np.float32), "b": np.ones(4, np.float32),
        "w": RNG.normal(size=(4, 4)).astype(np.float32),
    }  # fmt: skip
    return onnx_model(nodes, {"x": [2, 4]}, ["y"], constants)


BOUNDS = {"n": (-3.0, 3.0), "s": (-3.0, 3.0), "t": (-3.0, 3.0)}


def lines(islands, *, int8=(), model="deploy"):
    float_groups = [name for name in ("layer", "gemm", "plain") if name not in int8]
    exported = export(network(), BOUNDS, fp16=float_groups, islands=islands)
    kept = keep_dtype(getattr(exported, model), frozenset(islands))
    return kept, kept.text.splitlines()


def test_nodes_are_written_under_the_names_that_the_parser_gives_them():
    kept, text = lines(["pow", "mean", "div", "norm", "gemm", "plain"])
    assert text == [
        "pow", "mean_ReduceMean", "div", "norm_LayerNorm", "gemm_MatMulV2", "gemm_add",
        "plain_MatMulV2",
    ]  # fmt: skip
    assert kept.text.endswith("\n") and kept.by_type == () and kept.unnamed == ()


def test_no_islands_give_an_empty_file():
    assert lines([])[0].text == ""


def test_where_no_name_is_certain_the_op_type_is_written():
    kept, text = lines(["least", "clip", "pow"])
    assert text[0] == "pow"
    assert set(text[1:]) == {f"OpType::{kind}" for kind in kept.by_type}
    assert "OpType::ReduceMin" in text and "OpType::ClipByValue" in text
    assert "OpType::Cast" not in text


def test_an_int8_layer_is_kept_at_its_quant_and_dequant():
    _, text = lines(["layer_bias"], int8=["layer"])
    assert text == ["layer/AscendQuant", "layer/AscendDequant"]
    _, text = lines(["layer_bias"], int8=["layer"], model="model")
    assert text == ["layer_bias"]


def test_names_that_do_not_exist_are_not_written():
    assert lines(["nowhere"])[0].text == ""


def test_an_operator_that_the_table_does_not_know_is_reported():
    node = helper.make_node("Bernoulli", ["x"], ["y"], name="dice")
    model = onnx_model([node], {"x": [2]}, ["y"], {})
    kept = keep_dtype(model, frozenset({"dice"}))
    assert kept.text == "" and kept.unnamed == ("dice",)
