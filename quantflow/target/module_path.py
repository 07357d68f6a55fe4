"""The torch module that a node came from, as torch's exporter notes it."""

from __future__ import annotations

import ast
from typing import Final, cast

import onnx_ir as ir

SCOPES_KEY: Final = "pkg.torch.onnx.name_scopes"
"""Metadata in which torch's exporter keeps the module path of every node."""


def module_path(node: ir.Node) -> str:
    """Path of the innermost module, ``encoder.layer.0.output`` say; empty if not known."""
    try:
        scopes = ast.literal_eval(node.metadata_props.get(SCOPES_KEY, "[]"))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return ""
    # The last scope is the operation itself; the one before it is the innermost module.
    inner = cast("list[object]", scopes)[-2:-1] if isinstance(scopes, list) else []
    path = str(inner[0]) if inner else ""
    return "" if path.startswith("_empty_nn_module_stack") else path
