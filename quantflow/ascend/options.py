"""The options of atc that a configuration may pass on, with the values each one takes.

From atc's manual and sources (2026). Values are compared as text, as on a command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from quantflow.ascend import option_values as syntax

MIXED_MODES: Final = frozenset(
    ("allow_mix_precision", "allow_mix_precision_fp16", "allow_mix_precision_bf16")
)
MIXED_MODES_V2: Final = frozenset(("mixed_float16", "mixed_bfloat16", "mixed_hif8"))
GEARS: Final = frozenset(("dynamic_batch_size", "dynamic_image_size", "dynamic_dims"))
DYNAMIC: Final = GEARS | {"input_shape_range"}
NOT_ON_EVERY_CHIP: Final = {
    "allow_mix_precision_bf16": "bfloat16",
    "allow_fp32_to_bf16": "bfloat16",
    "mixed_bfloat16": "bfloat16",
    "cube_hif8": "HiFloat8",
    "mixed_hif8": "HiFloat8",
}
"""Precision modes whose number format only some chips have, with the format."""

SET_BY_QUANTFLOW: Final = {
    "framework": "it is always 5, ONNX",
    "mode": "only mode 0, conversion, makes sense here",
    "model": "the deploy model of each bucket",
    "output": "the name of each bucket",
    "soc_version": "set target.chip",
    "input_shape": "set target.buckets",
}
"""Options that may not be given, with what they come from."""


@dataclass(frozen=True, slots=True)
class AtcOption:
    """One option.

    Attributes:
        name: without dashes.
        values: the values it takes; empty where it takes other text.
        code: what atc answers to another value.
        wrong: what is wrong with a value, of an option without `values`.
        file: whether its value names a file that has to travel with the model.
        suffix: what the file's name must end in, or empty.
        refused_with_int8: values that cannot be combined with an INT8 model.
        refused: why quantflow does not pass it on, or empty.
        deprecated: what to use instead, or empty.
    """

    name: str
    values: frozenset[str] = frozenset()
    code: str = "E10001"
    wrong: syntax.ValueRule = syntax.anything
    file: bool = False
    suffix: str = ""
    refused_with_int8: frozenset[str] = frozenset()
    refused: str = ""
    deprecated: str = ""


def option_texts(options: Mapping[str, str | int | bool]) -> dict[str, str]:
    """Values of a configuration as they stand on atc's command line.

    A boolean becomes 1 or 0 where the option takes those, else true or false.
    """
    return {name: _text(name, value) for name, value in options.items()}


def _text(name: str, value: str | int | bool) -> str:
    if not isinstance(value, bool):
        return str(value)
    numbers = name in OPTIONS and "1" in OPTIONS[name].values
    return str(int(value)) if numbers else str(value).lower()


def _choice(
    name: str, values: str, *, code: str = "E10001", int8: str = "", deprecated: str = ""
) -> AtcOption:
    return AtcOption(
        name,
        frozenset(values.split()),
        code=code,
        refused_with_int8=frozenset(int8.split()),
        deprecated=deprecated,
    )


def _file(name: str, suffix: str = "") -> AtcOption:
    return AtcOption(name, file=True, suffix=suffix)


_ALL: Final = (
    _choice("input_format", "NCHW NCDHW ND"),
    _choice(
        "precision_mode",
        "force_fp16 force_fp32 cube_fp16in_fp32out allow_mix_precision allow_mix_precision_fp16 "
        "allow_mix_precision_bf16 allow_fp32_to_fp16 allow_fp32_to_bf16 must_keep_origin_dtype",
        int8="force_fp32 must_keep_origin_dtype",
    ),
    _choice(
        "precision_mode_v2",
        "fp16 origin cube_fp16in_fp32out mixed_float16 mixed_bfloat16 cube_hif8 mixed_hif8",
        int8="origin",
    ),
    _choice("quant_dumpable", "0 1", code="E10006"),
    _choice("op_compiler_cache_mode", "enable disable force"),
    _choice("log", "debug info warning error null", code="E10010"),
    _choice("external_weight", "0 1 2", code="E10006"),
    _choice("deterministic", "0 1"),
    _file("keep_dtype"),
    _file("customize_dtypes"),
    _file("op_precision_mode", ".ini"),
    _file("modify_mixlist", ".json"),
    _file("insert_op_conf"),
    _file("fusion_switch_file"),
    AtcOption("op_compiler_cache_dir", wrong=syntax.directory),
    AtcOption("output_type", wrong=syntax.output_type),
    AtcOption("out_nodes", wrong=syntax.out_nodes),
    AtcOption("dynamic_batch_size", wrong=syntax.batch_gears),
    AtcOption("dynamic_image_size", wrong=syntax.image_gears),
    AtcOption("dynamic_dims", wrong=syntax.dims_gears),
    AtcOption("input_shape_range", wrong=syntax.shape_ranges, deprecated="input_shape with ranges"),
    _choice(
        "op_select_implmode",
        "high_precision high_performance high_precision_for_all high_performance_for_all "
        "enable_float_32_execution enable_hi_float_32_execution",
        int8="high_precision high_precision_for_all",
        deprecated="op_precision_mode",
    ),
    AtcOption("optypelist_for_implmode", deprecated="op_precision_mode"),
    AtcOption("auto_tune_mode", refused="atc answers any value with E10001; tune with AOE"),
    AtcOption(
        "compression_optimize_conf",
        refused="it calibrates inside atc, which needs AMCT and an NPU; the model is INT8 already",
    ),
    # Not about precision, and checked by atc in the same way.
    _choice("buffer_optimize", "l1_optimize l2_optimize off_optimize l1_and_l2_optimize"),
    _choice("disable_reuse_memory", "0 1", code="E10006"),
    _choice("enable_single_stream", "true false", code="E10005"),
    _choice("op_debug_level", "0 1 2 3 4"),
    AtcOption("static_model_ops_lower_limit", wrong=syntax.integer(-1, 2**63 - 1)),
    AtcOption("debug_dir", wrong=syntax.directory),
)

OPTIONS: Final = {option.name: option for option in _ALL}
"""Every option by name."""
