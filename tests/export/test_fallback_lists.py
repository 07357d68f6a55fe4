"""What other quantizers are told to leave alone: the layers that are not INT8, and no others."""

from __future__ import annotations

import json

from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.model_record import Layer, ModelRecord
from quantflow.export.fallback_lists import disable_names, skip_layers
from quantflow.export.text_proto import parse_text_proto


def layer(name: str, node: str) -> Layer:
    return Layer(
        name=name, node=node, op_type="MatMul", role="other", group=name, input="x", weight="w",
        bias=None, bias_node=None, output="y", macs=1,
    )  # fmt: skip


LAYERS = (layer("block.0.q", "block.0.q"), layer("block.0.o", "o_2"), layer('a "b"', 'ü"\\'))
RECORD = ModelRecord(opset=18, inputs=(), outputs=(), layers=LAYERS, groups=(), padding=())
FACTORS = [
    LayerFactors(layer="block.0.q", group="g", precision="int8", scale_d=1.0, offset_d=0),
    LayerFactors(layer="block.0.o", group="h", precision="fp16", reason="sensitivity rank 1"),
    LayerFactors(layer='a "b"', group="i", precision="fp32"),
]


def test_amct_is_given_one_field_for_every_node_that_is_not_int8() -> None:
    fields = parse_text_proto(skip_layers(RECORD, FACTORS))
    assert [field.name for field in fields] == ["skip_layers"] * 2
    assert [field.value for field in fields] == ["o_2", 'ü"\\']


def test_msmodelslim_is_given_the_names_of_the_modules() -> None:
    assert json.loads(disable_names(FACTORS)) == ["block.0.o", 'a "b"']


def test_with_everything_in_int8_both_are_empty() -> None:
    assert skip_layers(RECORD, FACTORS[:1]) == ""
    assert json.loads(disable_names(FACTORS[:1])) == []
