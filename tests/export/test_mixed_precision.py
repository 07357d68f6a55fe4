"""Files for mixed modes and for implementation modes: the islands, and what else they concern."""

from __future__ import annotations

import json

import numpy as np
from onnx import helper

from quantflow.ascend.mixlist_file import mixlist_findings, mixlist_types
from quantflow.ascend.precision_mode_file import precision_mode_findings
from quantflow.export.mixed_precision import MixedPrecision, mixed_precision
from tests.export.builders import export, onnx_model
from tests.export.test_keep_dtype import BOUNDS, network

FLOAT = ("layer", "gemm", "plain")


def files(islands: list[str], *, int8: tuple[str, ...] = ()) -> MixedPrecision:
    floats = [name for name in FLOAT if name not in int8]
    exported = export(network(), BOUNDS, fp16=floats, islands=islands)
    return mixed_precision(exported.deploy, frozenset(islands))


def test_types_of_islands_join_the_black_list_under_the_parser_s_names() -> None:
    # Its table: Pow stays Pow, Div becomes RealDiv, ReduceMean X becomes X_ReduceMean.
    found = files(["pow", "div", "mean"])
    assert json.loads(found.mixlist) == {
        "black-list": {"to-add": ["Pow", "RealDiv", "ReduceMean"], "to-remove": []},
        "white-list": {"to-add": [], "to-remove": []},
    }
    assert list(mixlist_findings(found.mixlist)) == []
    assert found.notes == ()  # the model has each of them once


def test_nodes_of_the_same_type_that_are_no_islands_are_told() -> None:
    # Of the two Gemm, X becomes X_MatMulV2, and X_add where it has a bias.
    found = files(["gemm"])
    assert mixlist_types(found.mixlist) == ["Add", "MatMulV2"]
    (note,) = found.notes
    assert "(1 Add, 1 MatMulV2)" in note  # layer_bias, and the other Gemm


def test_a_float_model_gets_precise_implementations_by_name_where_it_is_certain() -> None:
    found = files(["pow", "mean", "clip"])
    # A Clip becomes one of three types, as its bounds have it.
    assert found.precision_modes.splitlines() == [
        "[ByOpType]",
        *(f"{kind}=high_precision" for kind in ("ClipByValue", "Maximum", "Minimum")),
        "[ByNodeName]",
        "pow=high_precision",
        "mean_ReduceMean=high_precision",
    ]
    assert list(precision_mode_findings(found.precision_modes, int8=False)) == []


def test_an_int8_model_gets_none_and_the_reason() -> None:
    found = files(["pow"], int8=("layer",))
    assert found.precision_modes == "" and mixlist_types(found.mixlist) == ["Pow"]
    assert "high_precision does not go with an INT8 model" in found.notes[-1]


def test_the_float_sides_of_an_int8_layer_join_the_list() -> None:
    found = files(["layer_bias"], int8=("layer", "gemm"))
    assert mixlist_types(found.mixlist) == ["AscendDequant", "AscendQuant"]
    assert "1 AscendDequant, 1 AscendQuant" in found.notes[0]  # those of the Gemm


def test_no_islands_give_no_files() -> None:
    for islands in ([], ["nowhere"]):
        assert files(islands, int8=("layer",)) == MixedPrecision("", "", ())


def test_a_name_that_the_file_cannot_hold_stands_as_its_type() -> None:
    nodes = [helper.make_node("Pow", ["x", "two"], ["y"], name="a=b")]
    model = onnx_model(nodes, {"x": [2]}, ["y"], {"two": np.array(2, np.float32)})
    found = mixed_precision(model, frozenset({"a=b"}))
    assert found.precision_modes == "[ByOpType]\nPow=high_precision\n"
