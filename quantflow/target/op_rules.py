"""Rules about what is imported and which ops are used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import onnx_ir as ir

from quantflow.target.dialect import LintFinding, label, model_opset
from quantflow.target.op_table import LOWEST_OPSET, Cann, opset_ceiling, unsupported_ops

_STANDARD_INT8: Final = frozenset(
    ("QuantizeLinear", "DequantizeLinear", "ConvInteger", "MatMulInteger", "DynamicQuantizeLinear")
)
_REPORTED_ELSEWHERE: Final = frozenset(("Loop", "Scan"))
_DOMAINS: Final = ("", "npu")
"""Domains that the op table has; ``ai.onnx`` is another spelling of the first."""


def opset_import(model: ir.Model, cann: Cann) -> Iterator[LintFinding]:
    """One import of the default domain, between opset 11 and the ceiling of the CANN version."""
    ceiling = opset_ceiling(cann)
    opset = model_opset(model)
    if opset is None:
        yield LintFinding("error", "opset", "the model does not import the default domain")
    elif not LOWEST_OPSET <= opset <= ceiling:
        yield LintFinding(
            "error",
            "opset",
            f"the model imports opset {opset}; CANN {cann} reads {LOWEST_OPSET} to {ceiling}",
            fix=f"`quantflow prepare` writes it at {ceiling}; or export it there",
        )
    for domain in model.opset_imports:
        if domain not in (*_DOMAINS, "ai.onnx"):
            yield LintFinding(
                "error",
                "opset",
                "the model imports a domain that atc has no parsers for",
                domain,
                "drop the import, and rewrite nodes that need it",
            )


def domains_imported(model: ir.Model) -> Iterator[LintFinding]:
    """Every domain that a node uses is imported."""
    imported = {"" if domain == "ai.onnx" else domain for domain in model.opset_imports}
    used = Counter(node.domain for node in model.graph.all_nodes())
    for domain, count in used.items():
        if domain not in imported:
            yield LintFinding(
                "error",
                "domains",
                f"{count} node(s) use a domain that the model does not import",
                domain or "ai.onnx",
                "add it to opset_import",
            )


def standard_int8_ops(model: ir.Model) -> Iterator[LintFinding]:
    """The INT8 ops of standard ONNX have no parser in atc."""
    for op_type, nodes in _by_type(model).items():
        if _is_standard_int8(op_type[1]):
            yield LintFinding(
                "error",
                "standard-int8-op",
                f"atc has no parser for {op_type[1]} and stops with E16002 (E19010 in older "
                f"versions); {_places(nodes)}",
                op_type[1],
                "`quantflow from-qdq FILE` writes the model with AscendQuant and AscendDequant in "
                "their place; a QDQ twin of quantflow's own is for onnxruntime",
            )


def op_coverage(model: ir.Model, cann: Cann) -> Iterator[LintFinding]:
    """Every op type has a parser at the model's opset."""
    opset = model_opset(model)
    if opset is None:
        return
    by_type = _by_type(model)
    for domain in sorted({domain for domain, _ in by_type}):
        version = 1 if domain else opset
        types = {op_type for known, op_type in by_type if known == domain}
        types -= _REPORTED_ELSEWHERE
        for op_type, reason in unsupported_ops(types, version, cann, domain).items():
            if _is_standard_int8(op_type):
                continue
            yield LintFinding(
                "error",
                "op-coverage",
                f"at opset {version} atc stops with E16002, since it has {reason} for {op_type}; "
                f"{_places(by_type[domain, op_type])}",
                f"{domain}::{op_type}" if domain else op_type,
                "`quantflow prepare` rewrites what it can; else write it with ops that atc has",
            )


def _is_standard_int8(op_type: str) -> bool:
    return op_type in _STANDARD_INT8 or op_type.startswith("QLinear")


def _by_type(model: ir.Model) -> dict[tuple[str, str], list[ir.Node]]:
    found: dict[tuple[str, str], list[ir.Node]] = {}
    for node in model.graph.all_nodes():
        found.setdefault((node.domain, node.op_type), []).append(node)
    return found


def _places(nodes: list[ir.Node]) -> str:
    names = ", ".join(label(node) for node in nodes[:3])
    return f"{len(nodes)} node(s): {names}" + (", ..." if len(nodes) > 3 else "")
