"""Options: what atc takes passes, and what it refuses is named before it starts (C42)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantflow.artifacts.om_record import Finding
from quantflow.ascend.option_rules import option_findings
from quantflow.ascend.options import NOT_ON_EVERY_CHIP, OPTIONS, option_texts


def errors(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.level == "error"]


# The table of atc's manual and sources: the values that an option takes, and some that it refuses
# with the code that it answers.
MODES = (
    "force_fp16 force_fp32 cube_fp16in_fp32out allow_mix_precision allow_mix_precision_fp16 "
    "allow_mix_precision_bf16 allow_fp32_to_fp16 allow_fp32_to_bf16 must_keep_origin_dtype"
)
MODES_V2 = "fp16 origin cube_fp16in_fp32out mixed_float16 mixed_bfloat16 cube_hif8 mixed_hif8"
TABLE: list[tuple[str, Sequence[str], dict[str, str]]] = [
    ("input_format", ["NCHW", "NCDHW", "ND"], {"NHCW": "E10001", "nchw": "E10001"}),
    ("precision_mode", MODES.split(), {"fp16": "E10001", "force_fp61": "E10001"}),
    ("precision_mode_v2", MODES_V2.split(), {"force_fp16": "E10001"}),
    ("quant_dumpable", ["0", "1"], {"2": "E10006", "true": "E10006"}),
    ("external_weight", ["0", "1", "2"], {"3": "E10006"}),
    ("deterministic", ["0", "1"], {"2": "E10001"}),
    ("log", ["debug", "info", "warning", "error", "null"], {"verbose": "E10010"}),
    ("op_compiler_cache_mode", ["enable", "disable", "force"], {"on": "E10001"}),
    ("op_compiler_cache_dir", ["cache", "/no/such/place"], {"a b": "letters", "x;y": "letters"}),
    ("keep_dtype", ["keep.txt"], {}),
    ("customize_dtypes", ["types.cfg"], {}),
    ("fusion_switch_file", ["fusion.cfg"], {}),
    ("insert_op_conf", ["aipp.cfg"], {}),
    ("op_precision_mode", ["ops.ini"], {"ops.txt": ".ini"}),
    (
        "output_type",
        ["FP32", "FP16", "UINT8", "INT8"],
        {
            "FP8": "E10001",
            "fp16": "E10001",
            "a:FP16": "E10001",
            ":0:FP16": "E10001",
            "a:x:FP16": "E10014",
            "a:0:BF16": "E10001",
            "a:0:FP16;": "E10001",
        },
    ),
    (
        "out_nodes",
        ["a:0", "a:0;a:1;b:0", "scores", "scores;other"],
        {"a:0;scores": "E10001", "a:b:0": "E10001", "a:x": "E10001", ":0": "E10001", ";": "E10001"},
    ),
    ("buffer_optimize", ["l2_optimize", "off_optimize"], {"l3_optimize": "E10001"}),
    ("disable_reuse_memory", ["0", "1"], {"yes": "E10006"}),
    ("enable_single_stream", ["true", "false"], {"1": "E10005"}),
    ("op_debug_level", list("01234"), {"5": "E10001"}),
    ("static_model_ops_lower_limit", ["-1", "0", "4"], {"-2": "E10001", "x": "E10001"}),
]
LEGAL = [(name, value) for name, values, _ in TABLE for value in values]
ILLEGAL = [(name, value, code) for name, _, refused in TABLE for value, code in refused.items()]


@pytest.mark.parametrize(("name", "value"), LEGAL)
def test_every_legal_value_passes(name: str, value: str) -> None:
    found = option_findings({name: value}, int8=False, chip="Ascend310P3")
    if value in NOT_ON_EVERY_CHIP:  # which is all that is said about those
        assert [finding.level for finding in found] == ["warning"]
    else:
        assert found == []


@pytest.mark.parametrize(("name", "value", "word"), ILLEGAL)
def test_every_illegal_value_is_named_with_what_atc_answers(
    name: str, value: str, word: str
) -> None:
    (found,) = errors(option_findings({name: value}, int8=False))
    assert found.where == f"atc.options.{name}" and word in found.what and found.fix


# What gears may look like, and what is answered, from atc's sources.
GEARS: list[tuple[str, str, str]] = [
    ("dynamic_batch_size", "1,2,4", ""),
    ("dynamic_batch_size", "1,2,4,", ""),
    ("dynamic_batch_size", ",".join(map(str, range(1, 101))), ""),
    ("dynamic_batch_size", ",".join(map(str, range(1, 102))), "E10036"),
    ("dynamic_batch_size", "4", "E10035"),
    ("dynamic_batch_size", "1;2", "E10003"),
    ("dynamic_batch_size", "1,-2", "E10003"),
    ("dynamic_batch_size", "1,,2", "E10003"),
    ("dynamic_batch_size", "1,2,2", "E10039"),
    ("dynamic_batch_size", "0,2", "E10038"),
    ("dynamic_batch_size", "1," + "9" * 5000, "E10003"),
    ("dynamic_image_size", "224,224;448,448", ""),
    ("dynamic_image_size", "224, 224; 448, 448;", ""),
    ("dynamic_image_size", "224,224", "E10035"),
    ("dynamic_image_size", "224;448", "E10020"),
    ("dynamic_image_size", "224x224;448x448", "E10003"),
    ("dynamic_image_size", "224,224;224,224", "E10039"),
    ("dynamic_dims", "4;8;16", ""),
    ("dynamic_dims", "1,128;8,128", ""),
    ("dynamic_dims", "1,128;8", "E10037"),
    ("dynamic_dims", "1,-1;8,2", "E10003"),
    ("dynamic_dims", ";", "E10003"),
    ("input_shape_range", "x:[1~8,3,-1];y:[2]", ""),
    ("input_shape_range", "[1~8,3]", ""),
    ("input_shape_range", "x:1~8,3", "E10048"),
    ("input_shape_range", "x:[8~]", "E10048"),
    ("input_shape_range", "x:[]", "E10048"),
]


@pytest.mark.parametrize(("name", "value", "code"), GEARS)
def test_gears_and_ranges_are_read_as_atc_does(name: str, value: str, code: str) -> None:
    assert OPTIONS[name].wrong(value) == "" if not code else code in OPTIONS[name].wrong(value)


REFUSED: list[tuple[dict[str, str], str, str]] = [
    ({"precision_mode": "force_fp16", "precision_mode_v2": "fp16"}, "precision_mode_v2", "E10056"),
    ({"modify_mixlist": "m.json"}, "modify_mixlist", "E10001"),
    ({"modify_mixlist": "m.json", "precision_mode": "force_fp16"}, "modify_mixlist", "E10001"),
    ({"modify_mixlist": "m.json", "precision_mode_v2": "fp16"}, "modify_mixlist", "E10001"),
    ({"modify_mixlist": "m.txt", "precision_mode_v2": "mixed_float16"}, "modify_mixlist", ".json"),
    ({"dynamic_batch_size": "1,2"}, "dynamic_batch_size", "fixed shapes"),
    ({"dynamic_image_size": "32,32;64,64"}, "dynamic_image_size", "fixed shapes"),
    ({"dynamic_dims": "1;2"}, "dynamic_dims", "fixed shapes"),
    ({"input_shape_range": "x:[1~2]"}, "input_shape_range", "fixed shapes"),
    ({"dynamic_batch_size": "1,2", "dynamic_dims": "1;2"}, "dynamic_batch_size", "E10009"),
    ({"dynamic_dims": "1;2", "input_format": "NCHW"}, "dynamic_dims", "ND"),
    ({"dynamic_dims": "1;2", "insert_op_conf": "a.cfg"}, "insert_op_conf", "E10001"),
    ({"op_precision_mode": "a.ini", "op_select_implmode": "b"}, "op_select_implmode", "exclude"),
    (
        {"op_precision_mode": "a.ini", "optypelist_for_implmode": "b"},
        "optypelist_for_implmode",
        "exclude",
    ),
    ({"optypelist_for_implmode": "Pooling"}, "optypelist_for_implmode", "E10001"),
    ({"op_select_implmode": "high_precision"}, "op_select_implmode", "INT8"),
    ({"precision_mode": "force_fp32"}, "precision_mode", "INT8"),
    ({"precision_mode": "must_keep_origin_dtype"}, "precision_mode", "INT8"),
    ({"precision_mode_v2": "origin"}, "precision_mode_v2", "INT8"),
    ({"output_type": "a:0:FP16"}, "output_type", "out_nodes"),
    ({"output_type": "a:1:FP16", "out_nodes": "a:0"}, "output_type", "a:1"),
    ({"auto_tune_mode": "RL"}, "auto_tune_mode", "E10001"),
    ({"compression_optimize_conf": "c.cfg"}, "compression_optimize_conf", "AMCT"),
    ({"deterministic": ""}, "deterministic", "E10003"),
    ({"op_name_map": "a\x00b"}, "op_name_map", "control"),
    ({"out_nodes": "a:0\n"}, "out_nodes", "control"),
    ({"precison_mode": "force_fp16"}, "precison_mode", "unknown"),
    ({"--log": "info"}, "--log", "dashes"),
    ({"log=debug --log": "info"}, "log=debug --log", "no name"),
    ({"soc_version": "Ascend310"}, "soc_version", "itself"),
    ({"input_shape": "x:1,4"}, "input_shape", "itself"),
]


@pytest.mark.parametrize(("options", "option", "word"), REFUSED)
def test_options_that_atc_refuses_are_errors(
    options: dict[str, str], option: str, word: str
) -> None:
    found = errors(option_findings(options, int8=True))
    assert any(f.where == f"atc.options.{option}" and word in f.what and f.fix for f in found)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"precision_mode": "force_fp16", "log": "info", "deterministic": "1"},
        {"precision_mode_v2": "fp16"},
        {"precision_mode": "allow_mix_precision", "modify_mixlist": "m.json"},
        {"precision_mode_v2": "mixed_float16", "modify_mixlist": "m.json"},
        {"insert_op_conf": "aipp.cfg", "output_type": "FP32", "input_format": "NCHW"},
        {"out_nodes": "a:0; b:1", "output_type": "a:0:FP16;b:1:FP32"},
    ],
)
def test_options_that_atc_takes_pass(options: dict[str, str]) -> None:
    assert option_findings(options, int8=True) == []


def test_a_float_model_may_be_kept_in_fp32_but_has_fixed_shapes_too() -> None:
    assert option_findings({"precision_mode": "force_fp32"}, int8=False) == []
    (found,) = option_findings({"dynamic_batch_size": "1,2"}, int8=False)
    assert found.level == "error" and "E10040" in found.what


@pytest.mark.parametrize("value", sorted(NOT_ON_EVERY_CHIP))
def test_number_formats_that_not_every_chip_has_are_a_warning(value: str) -> None:
    name = "precision_mode" if value in OPTIONS["precision_mode"].values else "precision_mode_v2"
    (found,) = option_findings({name: value}, int8=True, chip="Ascend310P3")
    assert found.level == "warning" and "Ascend310P3" in found.what


def test_an_option_of_a_newer_atc_is_only_a_warning() -> None:
    (finding,) = option_findings({"quantum_tunnelling": "1"}, int8=True)
    assert finding.level == "warning"


@pytest.mark.parametrize(
    ("options", "instead"),
    [
        ({"op_select_implmode": "high_performance"}, "op_precision_mode"),
        ({"input_shape_range": "x:[1~2]"}, "input_shape with ranges"),
    ],
)
def test_a_deprecated_option_names_its_successor(options: dict[str, str], instead: str) -> None:
    (finding,) = option_findings(options, int8=False)
    assert (finding.level, instead in finding.fix) == ("warning", True)


def test_integers_and_booleans_come_out_as_atc_writes_them() -> None:
    given = {"deterministic": True, "quant_dumpable": False, "external_weight": 2, "log": "info"}
    flags = {"enable_single_stream": True, "an_option_of_tomorrow": False}
    assert option_texts({**given, **flags}) == {
        "deterministic": "1",
        "quant_dumpable": "0",
        "external_weight": "2",
        "log": "info",
        "enable_single_stream": "true",
        "an_option_of_tomorrow": "false",
    }


@st.composite
def some_options(draw: st.DrawFn) -> dict[str, str]:
    names = st.sampled_from(sorted(OPTIONS)) | st.text(max_size=12)
    syntax = st.text(alphabet="019,;:~-[] aFP\x00é٣", max_size=30)
    return draw(st.dictionaries(names, syntax | st.text(max_size=30), max_size=4))


@given(some_options(), st.booleans())
def test_no_option_makes_the_checks_fail(options: dict[str, str], int8: bool) -> None:
    for finding in option_findings(options, int8=int8):
        assert finding.what and finding.fix and finding.where.startswith("atc.options.")


def ordinary_gears(sizes: list[tuple[int, int]]) -> Iterator[str]:
    for height, width in sizes:
        yield f"{height},{width}"


@given(
    st.lists(
        st.tuples(st.integers(1, 9999), st.integers(1, 9999)), min_size=2, max_size=100, unique=True
    )
)
def test_every_list_of_different_sizes_is_gears(sizes: list[tuple[int, int]]) -> None:
    text = ";".join(ordinary_gears(sizes))
    assert OPTIONS["dynamic_image_size"].wrong(text) == OPTIONS["dynamic_dims"].wrong(text) == ""
