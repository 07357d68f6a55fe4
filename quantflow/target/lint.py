"""The linter: is this model what atc compiles, and will it compute what was meant?

It reads the graph as it is and changes nothing. A model that is ill-formed gives findings, not
exceptions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import onnx_ir as ir

from quantflow.target import (
    attribute_rules,
    dequant_rules,
    graph_rules,
    layer_rules,
    op_rules,
    quant_rules,
    type_rules,
)
from quantflow.target.dialect import LintFinding
from quantflow.target.op_table import Cann

_RULES: Final[tuple[Callable[[ir.Model], Iterator[LintFinding]], ...]] = (
    op_rules.standard_int8_ops,
    op_rules.domains_imported,
    graph_rules.control_flow,
    graph_rules.node_names,
    graph_rules.topological_order,
    graph_rules.static_shapes,
    attribute_rules.op_attributes,
    attribute_rules.op_inputs,
    type_rules.element_types,
    quant_rules.quant_attributes,
    quant_rules.quant_sources,
    quant_rules.quant_readers,
    quant_rules.quant_pairs,
    quant_rules.quant_duplicates,
    layer_rules.layer_weights,
    layer_rules.layer_attributes,
    layer_rules.layer_biases,
    layer_rules.layer_outputs,
    dequant_rules.dequant_inputs,
    dequant_rules.dequant_attributes,
    dequant_rules.dequant_types,
    dequant_rules.dequant_scales,
)


def lint(model: ir.Model, cann: Cann) -> list[LintFinding]:
    """Every departure of `model` from the INT8 dialect that this CANN version compiles."""
    return [
        *op_rules.opset_import(model, cann),
        *op_rules.op_coverage(model, cann),
        *(finding for rule in _RULES for finding in rule(model)),
    ]
