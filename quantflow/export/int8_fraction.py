"""How much of a model's work is INT8."""

from __future__ import annotations

from collections.abc import Sequence

from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.model_record import ModelRecord


def int8_mac_fraction(record: ModelRecord, factors: Sequence[LayerFactors]) -> float:
    """Share of the multiply-accumulates of layers with constant weights that run in INT8, 0-1.

    Products of two activations (attention's QK^T and PV) are on neither side of the fraction, in
    INT8 or not: their layers have no multiply-accumulates. A model without other layers gives 0.
    """
    int8 = {entry.layer for entry in factors if entry.precision == "int8"}
    total = sum(layer.macs for layer in record.layers)
    return (
        sum(layer.macs for layer in record.layers if layer.name in int8) / total if total else 0.0
    )
