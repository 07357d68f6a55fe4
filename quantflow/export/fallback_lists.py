"""The fallback layers for other quantizers, so that they keep the same layers in float.

AMCT's simplified configuration names a layer to be left alone by a line of its text proto::

    skip_layers: "node_MatMul_3"

with the name of the node in the ONNX file that AMCT is given: the float model of `40_onnx`.
msModelSlim takes a list of module names, `QuantConfig(disable_names=[...])`; they are those of
the module that the model's factory returns, and of use only where the model came from torch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.model_record import ModelRecord
from quantflow.export.text_proto import quote

AMCT_FILE = "amct_skip_layers.cfg"
MSMODELSLIM_FILE = "msmodelslim_disable_names.json"


def skip_layers(record: ModelRecord, factors: Sequence[LayerFactors]) -> str:
    """Text for AMCT's simplified configuration: the nodes of all layers that are not INT8.

    Args:
        record: the model's layers.
        factors: how each of them stands.
    """
    nodes = {layer.name: layer.node for layer in record.layers}
    return "".join(f"skip_layers: {quote(nodes[name])}\n" for name in _floats(factors))


def disable_names(factors: Sequence[LayerFactors]) -> str:
    """A JSON array for msModelSlim: the names of all layers that are not INT8, in graph order.

    Args:
        factors: how each layer stands.
    """
    return json.dumps(_floats(factors), indent=1, ensure_ascii=False) + "\n"


def _floats(factors: Sequence[LayerFactors]) -> list[str]:
    return [entry.layer for entry in factors if entry.precision != "int8"]
