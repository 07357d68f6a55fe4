"""The options of atc that a configuration may pass on, with the values each one takes.

From atc's manual and sources (2026). Values are compared as text, as on a command line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MIXED_MODES: Final = frozenset(
    ("allow_mix_precision", "allow_mix_precision_fp16", "allow_mix_precision_bf16")
)
MIXED_MODES_V2: Final = frozenset(("mixed_float16", "mixed_bfloat16", "mixed_hif8"))
DYNAMIC: Final = frozenset(
    ("dynamic_batch_size", "dynamic_image_size", "dynamic_dims", "input_shape_range")
)

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
        file: whether its value names a file that has to travel with the model.
        refused_with_int8: values that cannot be combined with an INT8 model.
        refused: why quantflow does not pass it on, or empty.
        deprecated: what to use instead, or empty.
    """

    name: str
    values: frozenset[str] = frozenset()
    file: bool = False
    refused_with_int8: frozenset[str] = frozenset()
    refused: str = ""
    deprecated: str = ""


def _choice(name: str, values: str, refused_with_int8: str = "") -> AtcOption:
    return AtcOption(
        name, frozenset(values.split()), refused_with_int8=frozenset(refused_with_int8.split())
    )


_ALL: Final = (
    _choice("input_format", "NCHW NCDHW ND"),
    _choice(
        "precision_mode",
        "force_fp16 force_fp32 cube_fp16in_fp32out allow_mix_precision allow_mix_precision_fp16 "
        "allow_mix_precision_bf16 allow_fp32_to_fp16 allow_fp32_to_bf16 must_keep_origin_dtype",
        refused_with_int8="force_fp32 must_keep_origin_dtype",
    ),
    _choice(
        "precision_mode_v2",
        "fp16 origin cube_fp16in_fp32out mixed_float16 mixed_bfloat16 cube_hif8 mixed_hif8",
        refused_with_int8="origin",
    ),
    _choice("quant_dumpable", "0 1"),
    _choice("op_compiler_cache_mode", "enable disable force"),
    _choice("log", "debug info warning error null"),
    _choice("external_weight", "0 1 2"),
    _choice("deterministic", "0 1"),
    AtcOption("keep_dtype", file=True),
    AtcOption("customize_dtypes", file=True),
    AtcOption("op_precision_mode", file=True),
    AtcOption("modify_mixlist", file=True),
    AtcOption("insert_op_conf", file=True),
    AtcOption("fusion_switch_file", file=True),
    AtcOption("op_compiler_cache_dir"),
    AtcOption("output_type"),
    AtcOption("out_nodes"),
    AtcOption("dynamic_batch_size"),
    AtcOption("dynamic_image_size"),
    AtcOption("dynamic_dims"),
    AtcOption("input_shape_range", deprecated="input_shape with ranges"),
    AtcOption("op_select_implmode", deprecated="op_precision_mode"),
    AtcOption("optypelist_for_implmode", deprecated="op_precision_mode"),
    AtcOption("auto_tune_mode", refused="atc answers any value with E10001; tune with AOE"),
    AtcOption(
        "compression_optimize_conf",
        refused="it calibrates inside atc, which needs AMCT and an NPU; the model is INT8 already",
    ),
)

OPTIONS: Final = {option.name: option for option in _ALL}
"""Every option by name."""
