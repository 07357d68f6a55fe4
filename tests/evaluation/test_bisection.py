"""Planted faults are named by the node they were planted in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from tests.evaluation.exported_encoder import (
    array_of,
    compare,
    deploy_of,
    export_encoder,
    float_of,
    give_array,
    node_called,
)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_encoder(tmp_path_factory.mktemp("encoder"))


def scaled(packed: np.ndarray, factor: float) -> np.ndarray:
    """Deq scales, float32 in the low half of uint64, times a factor."""
    low = (packed & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32)
    bits = (low * np.float32(factor)).astype(np.float32).view(np.uint32)
    return (packed & ~np.uint64(0xFFFFFFFF)) | bits.astype(np.uint64)


@pytest.mark.parametrize(("layer", "factor"), [("n_A0k", 0.5), ("n_A1o", 2.0), ("n_F2a", 0.5)])
def test_a_wrong_dequantization_scale_is_the_layer_s_own_fault(
    config: Path, layer: str, factor: float
) -> None:
    deploy = deploy_of(config)
    dequant = node_called(deploy, f"{layer}/AscendDequant")
    give_array(dequant, 1, scaled(array_of(dequant, 1), factor))
    found = compare(config, "fp32", deploy, limit=4).first_beyond
    assert found is not None
    # The Add of a bias belongs to its layer.
    assert found.point == layer and found.node == {"n_F2a": "n_F2b"}.get(layer, layer)
    assert found.culprit.startswith(f"the fault of {layer} itself")
    assert [entry.layer for entry in found.own if entry.beyond] == [layer]
    # The cosine is blind to it: it shows in the length.
    mine = next(entry for entry in found.own if entry.layer == layer)
    assert mine.cosine > 0.98
    assert mine.relative_error == pytest.approx(abs(factor - 1), rel=0.1)


def test_a_wrong_quantization_scale_shows_in_the_first_layer_that_reads_it(config: Path) -> None:
    deploy = deploy_of(config)
    quant = node_called(deploy, "n_A1q/AscendQuant")
    scale = quant.attributes["scale"].as_float()
    quant.attributes["scale"] = ir.AttrFloat32("scale", scale * 8)
    found = compare(config, "fp32", deploy, limit=4).first_beyond
    assert found is not None and found.node == "n_A1q"
    assert {x.layer for x in found.own if x.beyond} == {"n_A1q", "n_A1k", "n_A1v0"}


def test_a_nan_in_a_weight_is_named_by_the_node_that_reads_it(config: Path) -> None:
    deploy = deploy_of(config)
    norm = node_called(deploy, "n_N1")
    gain = array_of(norm, 1)
    gain[3] = np.nan
    give_array(norm, 1, gain)
    result = compare(config, "fp32", deploy, limit=4)
    found = result.first_beyond
    assert result.verdict == "fail" and found is not None
    assert (found.node, found.op_type, found.tensor) == ("n_N1", "LayerNormalization", "N1")
    assert "NaN" in found.reason and found.last_good == "A1"
    assert "n_N1 is no INT8 layer" in found.culprit
    spoiled = next(x for x in result.points if x.name == "N1")
    assert spoiled.nonfinite_apart == spoiled.nonfinite_other > 0
    assert spoiled.nonfinite_reference == 0


def test_exchanged_channels_of_a_layer_are_found(config: Path) -> None:
    deploy = deploy_of(config)
    layer, dequant = (node_called(deploy, x) for x in ("n_A2q", "n_A2q/AscendDequant"))
    width = array_of(layer, 1).shape[1]
    order = np.roll(np.arange(width), width // 2)  # two heads change places
    give_array(layer, 1, array_of(layer, 1)[:, order])
    give_array(dequant, 1, array_of(dequant, 1)[order])
    found = compare(config, "fp32", deploy, limit=4).first_beyond
    assert found is not None and found.node == "n_A2q" and found.block is not None
    assert "cosine" in found.reason and "itself" in found.culprit


def test_between_layers_the_first_node_inside_the_block_is_named(config: Path) -> None:
    # Not a layer's output, nor a boundary: scores that are scaled wrongly.
    model = float_of(config)
    scores = node_called(model, "n_A1s1")
    give_array(scores, 1, array_of(scores, 1) * np.float32(3))
    found = compare(config, "fp32", model, limit=4).first_beyond
    assert found is not None
    assert (found.node, found.tensor, found.last_good) == ("n_A1s1", "A1s1", "A1s")
    assert found.own == () and found.culprit == ""  # no side is INT8
    # What is seen first of it outside is what reads the attention.
    assert found.point == "n_A1o"


def test_error_that_adds_up_is_told_from_a_layer_s_own(config: Path) -> None:
    layers = [x for x in compare(config, "fp32", "int8", limit=4).points if x.kind == "layer"]
    worst = min(layers, key=lambda x: x.cosine)
    least = worst.cosine + 1e-9
    found = compare(config, "fp32", "int8", limit=4, layer_cosine=least).first_beyond
    assert found is not None and found.point == worst.name
    assert found.culprit.startswith(f"accumulated before {worst.name}")
    own = next(x for x in found.own if x.layer == worst.name)
    assert own.cosine > least and not own.beyond


def test_nothing_beyond_names_nothing(config: Path) -> None:
    found = compare(config, "fp32", "int8")
    assert found.verdict == "pass" and found.first_beyond is None and found.reasons == ()
