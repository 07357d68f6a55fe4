"""What atc's parser calls the nodes it makes of an ONNX node, and the way back.

A node either keeps its name and changes its type (Div X becomes RealDiv X), or is replaced by
nodes whose names start with its own (Gemm X becomes X_MatMulV2 and X_add). Options that name nodes
(``--keep_dtype``, ``--customize_dtypes``) and atc's messages use the new names.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

_SAME_NAME_FROM: Final[dict[str, int]] = {"Slice": 10, "Pad": 11, "TopK": 10}
"""Op types that are expanded below this opset and keep their name from it on.

Read in the parser plugins that the table was made from, like the next list.
"""

_ALWAYS_EXPANDED: Final = frozenset(
    (
        *("ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceProd", "ReduceSum"),
        *("Conv", "RandomNormal", "ScatterND"),
    )
)
"""Op types that the table lists under both heads, and whose plugin expands them at every opset."""


@dataclass(frozen=True, slots=True)
class _Rename:
    same_name: tuple[str, ...]
    expanded: tuple[tuple[str, str], ...]


def ascend_nodes(op_type: str, node_name: str, opset: int) -> list[tuple[str, str]]:
    """The ``(node name, Ascend op type)`` pairs that can stand for an ONNX node after the parser.

    Of an expanded node, helpers that only some attributes call for are among them (a Gemm has
    ``_Muls1`` only with an alpha). Where neither opset nor plugin decides between keeping the name
    and expanding (ReduceMin, ReduceSumSquare), both are returned. Names that end in a number the
    table does not give (Max, Min) are left out, since an option naming a node that is not there has
    no effect and no message; `ascend_types` still has their types.

    Returns:
        An empty list where the names are not known (Split, say) or atc has no parser.
    """
    rename = _applicable(op_type, opset)
    kept = [(node_name, ascend_type) for ascend_type in rename.same_name]
    return kept + [
        (node_name + suffix, ascend_type)
        for suffix, ascend_type in rename.expanded
        if not suffix.endswith("_")
    ]


def ascend_types(op_type: str, opset: int) -> tuple[str, ...]:
    """The Ascend op types that can stand for an ONNX op, without repetition."""
    rename = _applicable(op_type, opset)
    return tuple(dict.fromkeys((*rename.same_name, *(kind for _, kind in rename.expanded))))


def onnx_node(ascend_name: str, known: Collection[str]) -> str | None:
    """The ONNX node that a name in atc's messages or dumps stands for.

    Args:
        ascend_name: as atc writes it.
        known: names of the nodes in the model.

    Returns:
        The name itself when the model has it, else the longest known name that the parser's
        suffixes make `ascend_name` of, else None.
    """
    if ascend_name in known:
        return ascend_name
    stem = ascend_name.rstrip("0123456789")
    bases = (
        name.removesuffix(suffix)
        for suffix in parser_suffixes()
        for name in {ascend_name, stem}
        if name.endswith(suffix) and (name == ascend_name or suffix.endswith("_"))
    )
    return max((base for base in bases if base in known), key=len, default=None)


def _applicable(op_type: str, opset: int) -> _Rename:
    """The part of an op's entry that holds at an opset."""
    rename = _table().get(op_type, _Rename((), ()))
    if op_type in _ALWAYS_EXPANDED:
        return _Rename((), rename.expanded)
    if op_type in _SAME_NAME_FROM:
        keeps = opset >= _SAME_NAME_FROM[op_type]
        return _Rename(rename.same_name, ()) if keeps else _Rename((), rename.expanded)
    return rename


@cache
def parser_suffixes() -> tuple[str, ...]:
    """What the parser puts behind the name of a node that it expands."""
    return tuple({suffix: None for entry in _table().values() for suffix, _ in entry.expanded})


@cache
def _table() -> dict[str, _Rename]:
    text = files("quantflow.target").joinpath("parser_renames.json").read_text(encoding="utf-8")
    return {
        op_type: _Rename(
            same_name=tuple(entry.get("same_name", ())),
            expanded=tuple((suffix, kind) for suffix, kind in entry.get("expanded", ())),
        )
        for op_type, entry in json.loads(text)["ops"].items()
    }
