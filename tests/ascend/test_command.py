"""The command line of atc: every option as atc writes it, inputs in the order of the graph."""

from __future__ import annotations

from typing import Any

import pytest

from quantflow.artifacts.model_record import ModelRecord, TensorInfo
from quantflow.ascend.command import in_graph_order
from quantflow.ascend.planned import WantedConversion
from quantflow.errors import QuantflowError

from .conftest import Configure, Export


def arguments(export: Export, configure: Configure, **options: Any) -> list[str]:
    bucket = export.record.buckets[0]
    wanted = WantedConversion("int8", bucket.name, export.directory, bucket)
    command = wanted.command(configure(options=options))
    assert command[0] == "atc-of-this-test"
    return list(command[1:])


def test_the_command_has_what_the_manual_asks_for(export: Export, configure: Configure) -> None:
    assert arguments(export, configure) == [
        "--framework=5",
        "--model=deploy_batch1.onnx",
        "--output=batch1",
        "--soc_version=Ascend310P3",
        "--input_shape=x:1,4",
        "--keep_dtype=keep_dtype.txt",
        "--precision_mode=force_fp16",
    ]


def test_integers_booleans_and_files_of_the_configuration(
    export: Export, configure: Configure
) -> None:
    found = arguments(
        export, configure, deterministic=True, external_weight=1, enable_single_stream=False,
        precision_mode_v2="mixed_float16", modify_mixlist="some where/mix.json",
    )  # fmt: skip
    assert found[6:] == [
        "--deterministic=1",
        "--external_weight=1",
        "--enable_single_stream=false",
        "--precision_mode_v2=mixed_float16",
        "--modify_mixlist=options/modify_mixlist.json",
    ]


@pytest.mark.parametrize("value", [1.5, ["a"], {"a": "b"}, None])
def test_other_values_are_refused_by_the_configuration(value: Any, configure: Configure) -> None:
    with pytest.raises(QuantflowError) as error:
        configure(options={"log": value})
    assert error.value.problems[0].where.startswith("atc.options.log")


def test_inputs_stand_in_the_order_of_the_graph(export: Export) -> None:
    bucket = export.record.buckets[0]
    shapes = {"attention_mask": (1, 8), "input_ids": (1, 8), "odd": (1,)}
    record = export.record.model_copy(
        update={"buckets": (bucket.model_copy(update={"input_shapes": shapes}),)}
    )
    inputs = tuple(
        TensorInfo(name=name, dtype="int64", shape=("batch", 8))
        for name in ("input_ids", "attention_mask")
    )
    model = ModelRecord(opset=17, inputs=inputs, outputs=(), layers=(), groups=(), padding=())
    (ordered,) = in_graph_order(record, model).buckets
    assert list(ordered.input_shapes) == ["input_ids", "attention_mask", "odd"]
    assert ordered.input_shapes == shapes
