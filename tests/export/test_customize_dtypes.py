"""--customize_dtypes names islands with the type of every input and output, or not at all."""

from __future__ import annotations

from quantflow.export.customize_dtypes import customize_dtypes
from quantflow.target.dtype_files import unmatched_lines
from tests.export.builders import export
from tests.export.test_keep_dtype import BOUNDS, network

FLOAT = ("layer", "gemm", "plain")


def lines(islands: list[str], *, int8: tuple[str, ...] = ()) -> list[str]:
    floats = [name for name in FLOAT if name not in int8]
    exported = export(network(), BOUNDS, fp16=floats, islands=islands)
    text = customize_dtypes(exported.deploy, frozenset(islands))
    assert unmatched_lines(exported.deploy, text) == []
    return text.splitlines()


def test_a_node_that_keeps_its_name_is_written_with_all_its_types() -> None:
    assert lines(["pow"]) == ["pow::InputDtype:float32,float32,OutputDtype:float32"]
    assert lines(["div"]) == ["div::InputDtype:float32,float32,OutputDtype:float32"]


def test_a_node_that_the_parser_expands_is_left_to_the_keep_dtype_file() -> None:
    # ReduceMean X becomes X_ReduceMean, whose inputs depend on the opset.
    assert lines(["mean", "gemm", "clip"]) == []


def test_the_float_sides_of_an_int8_layer_are_written() -> None:
    assert lines(["layer_bias"], int8=("layer",)) == [
        "layer/AscendQuant::InputDtype:float32,OutputDtype:int8",
        "layer/AscendDequant::InputDtype:int32,uint64,OutputDtype:float32",
    ]


def test_no_islands_give_an_empty_text() -> None:
    assert lines([]) == [] and lines(["nowhere"]) == []
