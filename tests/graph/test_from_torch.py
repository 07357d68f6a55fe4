"""torch modules: module paths as names, free dimensions, outputs, and failures in words.

Exporting takes about a second, hence few modules, each exported once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from quantflow.artifacts.model_record import ModelRecord
from quantflow.config import InputConfig
from quantflow.errors import Problem, QuantflowError
from quantflow.graph.bucket import bucket_model
from quantflow.graph.canonical import canonicalize
from quantflow.graph.from_torch import export_torch
from quantflow.graph.layers import describe_model
from quantflow.torch_import import import_torch

from .models import assert_canonical, assert_close, rand, run

torch = pytest.importorskip("torch")

from . import torch_models as modules  # noqa: E402


def shape(*dims: int | str, dtype: Any = "float32") -> InputConfig:
    return InputConfig(dtype=dtype, shape=dims)


X = {"x": shape("batch", 4)}
IDS = {
    "input_ids": shape("batch", "length", dtype="int64"),
    "attention_mask": shape("batch", "length", dtype="int64"),
}


def exported(module: Any, inputs: dict[str, InputConfig], outputs: Sequence[str]) -> ir.Model:
    torch.manual_seed(0)
    model = export_torch(module, inputs, outputs)
    canonicalize(model, "2026")
    assert_canonical(model, 18)
    return model


def torch_outputs(module: Any, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    with torch.no_grad():
        result = module(*(torch.from_numpy(array) for array in feeds.values()))
    result = result if isinstance(result, tuple) else (result,)
    return [tensor.numpy() for tensor in result]


def refused(module: Any, inputs: dict[str, InputConfig], outputs: Sequence[str]) -> Problem:
    with pytest.raises(QuantflowError) as caught:
        export_torch(module, inputs, outputs)
    (problem,) = caught.value.problems
    return problem


# --- a decoder ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def decoder() -> tuple[Any, ir.Model, ModelRecord]:
    torch.manual_seed(1)
    module = modules.Decoder().eval()
    model = exported(module, IDS, ["logits"])
    record = describe_model(model, {"batch": 1, "length": 8}, mask="attention_mask", notes=[])
    return module, model, record


def tokens(batch: int, length: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(length)
    mask = np.ones((batch, length), np.int64)
    mask[-1, length - 2 :] = 0
    return {"input_ids": rng.integers(0, 40, (batch, length)), "attention_mask": mask}


@pytest.mark.parametrize(("batch", "length"), [(1, 3), (3, 6), (2, 20)])
def test_the_decoder_computes_what_torch_computes_at_every_size(
    decoder: tuple[Any, ir.Model, ModelRecord], batch: int, length: int
) -> None:
    module, model, _ = decoder
    feeds = tokens(batch, length)
    expected = dict(zip(["logits"], torch_outputs(module, feeds), strict=True))
    assert_close(run(model, feeds), expected, 1e-5)
    static = bucket_model(model, {"batch": batch, "length": length})
    assert_close(run(static, feeds), run(model, feeds), 1e-6)


def test_the_layers_of_a_decoder_are_named_by_module_path_with_their_roles(
    decoder: tuple[Any, ir.Model, ModelRecord],
) -> None:
    found = {layer.name: layer.role for layer in decoder[2].layers if not layer.float_reason}
    assert found == {
        "layers.0.self_attn.q_proj": "qkv",
        "layers.0.self_attn.k_proj": "qkv",
        "layers.0.self_attn.v_proj": "qkv",
        "layers.0.self_attn.o_proj": "attention_output",
        "layers.0.mlp.gate_proj": "ffn",
        "layers.0.mlp.up_proj": "ffn",
        "layers.0.mlp.down_proj": "ffn",
        "lm_head": "classifier",
    }
    assert len({layer.weight for layer in decoder[2].layers}) == len(decoder[2].layers)


def test_the_groups_of_a_decoder_are_what_reads_one_tensor(
    decoder: tuple[Any, ir.Model, ModelRecord],
) -> None:
    assert [group.name for group in decoder[2].groups] == [
        "layers.0.self_attn.q_proj+k_proj+v_proj",
        "layers.0.self_attn.o_proj",
        "layers.0.mlp.gate_proj+up_proj",
        "layers.0.mlp.down_proj",
        "lm_head",
    ]
    assert {p.layout for p in decoder[2].padding} == {"positions"}


def test_the_multiply_accumulates_of_a_decoder_are_those_of_a_hand_count(
    decoder: tuple[Any, ir.Model, ModelRecord],
) -> None:
    # 8 positions, width 32, two of four heads for K and V, feed-forward 64, vocabulary 40.
    assert [group.macs for group in decoder[2].groups] == [
        8 * 32 * (32 + 16 + 16), 8 * 32 * 32, 8 * 32 * (64 + 64), 8 * 64 * 32, 8 * 32 * 40,
    ]  # fmt: skip


def test_a_head_tied_to_the_embedding_has_a_weight_of_its_own(
    decoder: tuple[Any, ir.Model, ModelRecord],
) -> None:
    # C19
    module, model, record = decoder
    table = module.embed_tokens.weight.detach().numpy()
    values = {name: value.const_value for name, value in model.graph.initializers.items()}
    weight = values[record.layers[-1].weight]
    assert weight is not None and np.array_equal(weight.numpy(), table.T)
    (gather,) = [node for node in model.graph if (node.name or "").startswith("embed_tokens")]
    assert gather.op_type == "Gather" and gather.inputs[0] is not None
    rows = values[str(gather.inputs[0].name)]
    assert rows is not None and np.array_equal(rows.numpy(), table)


def test_free_dimensions_have_the_names_of_the_configuration(
    decoder: tuple[Any, ir.Model, ModelRecord],
) -> None:
    record = decoder[2]
    assert [(info.name, info.shape, info.mask) for info in record.inputs] == [
        ("input_ids", ("batch", "length"), False),
        ("attention_mask", ("batch", "length"), True),
    ]
    assert [(info.name, info.shape) for info in record.outputs] == [
        ("logits", ("batch", "length", 40))
    ]


# --- other modules -----------------------------------------------------------------------------


def test_cross_attention_with_two_outputs_and_names_that_say_nothing() -> None:
    torch.manual_seed(2)
    module = modules.CrossAttention().eval()
    inputs = {"x": shape("batch", "queries", 16), "memory": shape("batch", "keys", 24)}
    model = exported(module, inputs, ["y", "pooled"])
    feeds = {"x": rand(2, 3, 16), "memory": rand(2, 5, 24, seed=1)}
    expected = dict(zip(["y", "pooled"], torch_outputs(module, feeds), strict=True))
    assert_close(run(model, feeds), expected, 1e-5)
    dims = {"batch": 1, "queries": 4, "keys": 5}
    record = describe_model(model, dims, mask=None, notes=[])
    assert {group.name: (group.role, group.tensor) for group in record.groups if group.name != "d"
            } == {"a": ("qkv", "x"), "b+c": ("qkv", "memory")}  # fmt: skip
    assert record.layers[-1].name == "d" and record.layers[-1].role == "attention_output"


def test_an_interior_value_gives_way_to_an_output_of_its_name() -> None:
    # C23: the exporter itself would write an invalid file.
    torch.manual_seed(3)
    module = modules.Clash().eval()
    first = export_torch(module, X, ["y"])
    interior = [str(node.outputs[0].name) for node in first.graph][:-1]
    assert len(interior) >= 2 and "y" not in interior
    x = rand(3, 4)
    for name in interior[:1]:
        model = exported(module, X, [name])
        assert_close(run(model, {"x": x}), {name: torch_outputs(module, {"x": x})[0]})


def test_inputs_repeated_values_and_constants_may_be_outputs() -> None:
    torch.manual_seed(4)
    module = modules.PassThrough().eval()
    names = ["same", "once", "twice", "ones"]
    model = exported(module, X, names)
    x = rand(3, 4)
    expected = dict(zip(names, torch_outputs(module, {"x": x}), strict=True))
    assert [value.name for value in model.graph.inputs] == ["x"]
    assert_close(run(model, {"x": x}), expected)


def test_a_layer_that_is_called_twice_is_two_layers_and_dropout_is_off() -> None:
    torch.manual_seed(5)
    module = modules.Twice().train()
    model = exported(module, X, ["y"])
    x = rand(3, 4)
    assert_close(run(model, {"x": x}), {"y": torch_outputs(module.eval(), {"x": x})[0]})
    record = describe_model(model, {"batch": 1}, mask=None, notes=[])
    assert [layer.name for layer in record.layers] == ["layer", "layer_1"]


# --- failures ----------------------------------------------------------------------------------


def test_a_dimension_that_the_module_fixes_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    problem = refused(modules.FixedLength(), {"x": shape("batch", "length", 4)}, ["y"])
    assert problem.code == "QF203" and "9" in problem.what
    assert "as a number" in problem.fix
    # With the number, it exports.
    model = exported(modules.FixedLength().eval(), {"x": shape("batch", 9, 4)}, ["y"])
    assert run(model, {"x": rand(2, 9, 4)})["y"].shape == (2, 9, 4)
    assert capfd.readouterr() == ("", "")


def test_an_exception_in_the_module_is_reported_with_its_message(
    capfd: pytest.CaptureFixture[str],
) -> None:
    problem = refused(modules.Clash(), {"x": shape("batch", 5)}, ["y"])
    assert problem.code == "QF203" and "4" in problem.what and problem.where == "model.factory"
    assert capfd.readouterr() == ("", "")


def test_a_wrong_number_of_outputs_is_reported() -> None:
    problem = refused(modules.Clash(), X, ["y", "z"])
    assert problem.code == "QF203" and problem.where == "model.outputs"
    assert "1" in problem.what and "2" in problem.what


def test_what_is_no_module_is_reported() -> None:
    for thing in (lambda x: x, modules.Clash, None):
        problem = refused(thing, X, ["y"])
        assert problem.code == "QF203" and "torch.nn.Module" in problem.what


def test_torch_that_cannot_be_imported_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    # C44: torch_npu without CANN makes `import torch` fail.
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(QuantflowError) as caught:
        import_torch()
    (problem,) = caught.value.problems
    assert problem.code == "QF603" and problem.fix
    assert caught.value.exit_code == 3
