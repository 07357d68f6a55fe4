import tomllib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from quantflow.cli.init import render_config
from quantflow.config import Config, InputConfig, PlanConfig, load_config
from tests.cli.conftest import Call
from tests.cli.tiny_project import write_model


def test_an_onnx_file_gives_a_configuration_that_loads(call: Call, tmp_path: Path) -> None:
    write_model(tmp_path / "model.onnx")
    np.savez(tmp_path / "candidates.npz", x=np.zeros((4, 16), np.float32))
    config = tmp_path / "quantflow.toml"
    assert call("init", "-c", config, "--onnx", tmp_path / "model.onnx").code == 0
    loaded = load_config(config).config
    assert loaded.model.onnx == "model.onnx"
    assert loaded.model.inputs == {"x": InputConfig(shape=("batch", 16))}
    assert loaded.target.buckets == ({"batch": 1},)


def test_a_factory_gives_a_configuration_that_loads_once_its_files_are_there(
    call: Call, tmp_path: Path
) -> None:
    config = tmp_path / "quantflow.toml"
    assert call("init", "-c", config, "--factory", "mine:build").code == 0
    (tmp_path / "candidates.jsonl").touch()
    (tmp_path / "tokenizer.json").touch()
    loaded = load_config(config).config
    assert loaded.model.factory == "mine:build"
    assert loaded.target.buckets == ({"batch": 1, "length": 128},)


def test_the_template_names_every_key_with_its_default() -> None:
    text = render_config("a:b", None, {"x": InputConfig(shape=("batch", 4))})
    for section, field in Config.model_fields.items():
        assert f"[{section}]" in text or f"# [{section}]" in text
        model = field.annotation
        for key in getattr(model, "model_fields", {}):
            if section == "model" or key in ("source", "options"):
                continue
            assert f"{key} = " in text or f"[{section}.{key}]" in text, f"{section}.{key}"


def test_what_is_commented_out_shows_the_default() -> None:
    text = render_config("a:b", None, {"x": InputConfig(shape=("batch", 4))})
    sections = ("run", "target", "set", "quantization", "plan", "budget", "runtime")
    for section in sections:
        body = text.split(f"\n[{section}]\n")[1].split("\n[")[0].split("\n# [")[0]
        lines = [line.removeprefix("# ") for line in body.splitlines() if " = " in line]
        given = tomllib.loads("\n".join(lines))
        model = Config.model_fields[section].annotation
        assert model is not None
        required = {"candidates": {"kind": "npz", "path": "x"}} if section == "set" else {}
        # Where there is no default, an example is all that can be shown.
        given = {k: v for k, v in given.items() if model.model_fields[k].default is not None}
        assert model.model_validate(required | given) == model.model_validate(required), section


def test_the_examples_of_pins_are_valid() -> None:
    text = render_config("a:b", None, {"x": InputConfig(shape=("batch", 4))})
    lines = text.split("# [[plan.pins]]", 1)[1].split("\n\n")[0].splitlines()
    text = "\n".join(["[[plan.pins]]", *(line.removeprefix("# ") for line in lines)])
    plan = PlanConfig.model_validate(tomllib.loads(text)["plan"])
    assert [(pin.pattern, pin.role) for pin in plan.pins] == [
        ("*.layer.0.*", None),
        (None, "classifier"),
    ]


def test_the_batch_of_the_first_bucket_is_1_whatever_it_is_called() -> None:
    inputs = {"x": InputConfig(shape=("N", "batch", 4)), "k": InputConfig(shape=("N", "L"))}
    buckets = tomllib.loads(render_config("a:b", None, inputs))["target"]["buckets"]
    assert buckets == [{"N": 1, "batch": 128, "L": 128}]


@pytest.mark.parametrize("name", ["plain", "with.dot", 'quo"te', "päd ding", "back\\slash"])
def test_any_input_name_survives(name: str) -> None:
    text = render_config("a:b", None, {name: InputConfig(dtype="int64", shape=("batch", name))})
    tree = tomllib.loads(text)
    assert tree["model"]["inputs"] == {name: {"dtype": "int64", "shape": ["batch", name]}}
    assert tree["target"]["buckets"] == [{"batch": 1, name: 1 if name == "batch" else 128}]


def test_a_configuration_is_not_replaced_without_force(call: Call, tmp_path: Path) -> None:
    config = tmp_path / "quantflow.toml"
    config.write_text("precious")
    answer = call("init", "-c", config)
    assert answer.code == 2 and "QF108" in answer.err
    assert config.read_text() == "precious"
    assert call("init", "-c", config, "--force").code == 0
    assert config.read_text() != "precious"


def test_an_input_that_is_not_supported_is_refused_by_name(call: Call, tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Identity", ["scalar"], ["y"])],
        "g",
        [helper.make_tensor_value_info("scalar", TensorProto.FLOAT, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
    )
    onnx.save(helper.make_model(graph, ir_version=9), tmp_path / "m.onnx")
    answer = call("init", "-c", tmp_path / "q.toml", "--onnx", tmp_path / "m.onnx")
    assert answer.code == 2 and "'scalar'" in answer.err
    assert not (tmp_path / "q.toml").exists()
