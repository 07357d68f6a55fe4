"""What atc's messages name is given back as node and layer, on both machines alike."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantflow.ascend.error_hints import HINTS, PATTERNS, pattern_hint, tells_an_error
from quantflow.ascend.error_places import MOST_PLACES, error_places, named_nodes, node_finder
from quantflow.target.parser_renames import onnx_node, parser_suffixes

LAYERS = {
    "encoder.layer.3.attention.self.query": "encoder.layer.3.attention.self.query",
    "encoder.layer.3.attention.self.query.dequant": "encoder.layer.3.attention.self.query",
    "/model/layers.0/mlp/Gemm": "model.layers.0.mlp",
    "/model/layers.0/norm/ReduceMean": "",
    "fc": "fc",
    "op": "op",
    "Mul": "",
    "my layer": "my layer",
}


def named(line: str) -> list[str]:
    return named_nodes(line, partial(onnx_node, known=LAYERS))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("E20001: op [/model/layers.0/mlp/Gemm_MatMulV2] failed.", ["/model/layers.0/mlp/Gemm"]),
        ("EZ3002: Optype [MatMulV2] of node 'fc' is not supported", ["fc"]),
        ('node "my layer" has no kernel', ["my layer"]),
        ("op[name:fc,type:MatMul]", ["fc"]),
        ("op[fc, MatMul], op[/model/layers.0/norm/ReduceMean_ReduceMean,x]",
         ["fc", "/model/layers.0/norm/ReduceMean"]),
        ("Failed at encoder.layer.3.attention.self.query.",
         ["encoder.layer.3.attention.self.query"]),
        ("node:encoder.layer.3.attention.self.query.dequant failed",
         ["encoder.layer.3.attention.self.query.dequant"]),
        ("Optype [Mul] of op[fc, Mul], op type: 'Mul'", ["fc"]),
        ("op 'Mul' failed", ["Mul"]),
        ("(fc) <fc> `fc` {fc}", ["fc"]),
        ("the op is not there, nor is any fc", []),  # words of the sentence
        ("E10001: Value [x] for parameter [--log] is invalid.", []),
        ("", []),
    ],
)  # fmt: skip
def test_names_are_found_however_they_are_marked(line: str, expected: list[str]) -> None:
    assert named(line) == expected


def test_places_have_node_and_layer_and_are_bounded() -> None:
    find = partial(onnx_node, known=LAYERS)
    lines = ["node '/model/layers.0/mlp/Gemm_add' and '/model/layers.0/norm/ReduceMean'"] * 3
    assert error_places(lines, LAYERS, find) == [
        "node '/model/layers.0/mlp/Gemm' (layer 'model.layers.0.mlp')",
        "node '/model/layers.0/norm/ReduceMean'",
    ]
    many = {f"n{i}": "" for i in range(50)}
    line = " ".join(f"[n{i}]" for i in range(50))
    assert len(error_places([line], many, partial(onnx_node, known=many))) == MOST_PLACES


@given(st.text(alphabet="'\"[]()<>` op:fc/._0;,\x00", max_size=300))
def test_any_line_is_read_in_bounded_time(line: str) -> None:
    assert set(named(line * 20)) <= set(LAYERS)


@given(
    st.sampled_from(sorted(LAYERS)),
    st.sampled_from(["", *parser_suffixes()]),
    st.sampled_from(["", "0", "12"]),
)
def test_the_folder_s_finder_is_the_package_s(name: str, suffix: str, number: str) -> None:
    spelled = name + suffix + number
    assert node_finder(LAYERS, parser_suffixes())(spelled) == onnx_node(spelled, LAYERS)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("atc: error while loading shared libraries: libge.so: cannot open", "set_env.sh"),
        ("ModuleNotFoundError: No module named 'decorator'", "pip install"),
        ("OSError: [Errno 28] No space left on device", "space"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "TE_PARALLEL_COMPILER"),
        ("/bin/sh: atc.bin: Permission denied", "owner"),
        ("Segmentation fault (core dumped)", "plog"),
        ("op type AscendFoo is not supported", "plog"),
    ],
)
def test_a_line_without_a_code_has_its_hint(line: str, word: str) -> None:
    hint = pattern_hint(line)
    assert hint is not None and word in hint.fix and tells_an_error(line)


def test_every_documented_code_has_cause_and_fix() -> None:
    codes = """E10001 E10002 E10003 E10004 E10007 E10009 E10010 E10016 E10017 E10018 E10020 E10021
        E10022 E10035 E10036 E10040 E10041 E10054 E10055 E10056 E13000 E13001 E13002 E13003 E13009
        E13010 E16001 E16002 E19010 E19999 E20001 EZ3002 EZ3003 EZ9010 EH9999"""
    assert set(codes.split()) <= set(HINTS)
    for hint in (*HINTS.values(), *PATTERNS.values()):
        assert hint.cause and hint.fix
