"""The files that name nodes for atc, --keep_dtype and --customize_dtypes, held against a model.

atc says nothing of a line that names no node, so that a slip leaves the node in fp16 (C43).
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from quantflow.target.dialect import LintFinding, model_opset
from quantflow.target.parser_renames import ascend_nodes, ascend_types

BY_TYPE = "OpType::"
"""Starts an entry that names an op type."""


def unmatched_lines(model: ir.Model, text: str) -> list[str]:
    """The entries that match no node, and no op type, of the model after the parser's renames.

    Args:
        model: the one that atc is given along with the file.
        text: of a keep_dtype or customize_dtypes file.
    """
    opset = model_opset(model) or 0
    known: set[str] = set()
    for node in model.graph.all_nodes():
        known |= {name for name, _ in ascend_nodes(node.op_type, node.name or "", opset)}
        known |= {BY_TYPE + kind for kind in ascend_types(node.op_type, opset)}
    entries = [line for line in text.splitlines() if line.strip()]
    return [entry for entry in entries if _subject(entry) not in known]


def dtype_findings(model: ir.Model, text: str, name: str) -> Iterator[LintFinding]:
    """One error for every entry of the file `name` that would have no effect."""
    for entry in unmatched_lines(model, text):
        what = f"{entry!r} matches no node after atc's parser, so it would have no effect"
        yield LintFinding("error", "dtype-files", what, name, "name the node as atc's parser does")


def _subject(entry: str) -> str:
    """What an entry is about: ``X`` or ``OpType::X``, without the types that follow."""
    if entry.startswith(BY_TYPE):
        return BY_TYPE + entry.removeprefix(BY_TYPE).partition(":")[0]
    return entry.partition("::")[0]
