"""The configuration: every problem named, with its key, before any work starts."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from quantflow import config as c
from quantflow.config import LoadedConfig, check_config, load_config, resolve_path
from quantflow.errors import Problem, QuantflowError
from quantflow.target.chips import check_chip
from quantflow.target.op_table import Cann

FACTORY = {
    "model": {
        "factory": "net:build",
        "inputs": {"ids": {"dtype": "int64", "shape": ["batch", "length"]}},
        "outputs": ["logits"],
    },
    "set": {"candidates": {"kind": "function", "function": "net:records"}},
}


def with_keys(**changes: Any) -> dict[str, Any]:
    """The minimal configuration with ``section__key`` replaced."""
    tree = copy.deepcopy(FACTORY)
    for key, value in changes.items():
        *path, last = key.split("__")
        node: Any = tree
        for part in path:
            node = node.setdefault(part, {})
        node[last] = value
    return tree


def problems(tree: dict[str, Any], base: Path = Path()) -> list[Problem]:
    with pytest.raises(QuantflowError) as caught:
        check_config(tree, base=base)
    return list(caught.value.problems)


def only(tree: dict[str, Any], base: Path = Path()) -> Problem:
    found = problems(tree, base)
    assert len(found) == 1, found
    return found[0]


def write(folder: Path, text: str) -> Path:
    path = folder / "quantflow.toml"
    path.write_text(text)
    return path


MINIMAL_TOML = """
[model]
factory = "net:build"
outputs = ["y"]
inputs.x = { shape = ["batch", 4] }
[set]
candidates = { kind = "function", function = "net:records" }
"""


# --- what is accepted --------------------------------------------------------------------------


def test_the_minimal_configuration_is_complete_with_defaults() -> None:
    config = check_config(copy.deepcopy(FACTORY), base=Path()).config
    assert config.target.cann == "2026" and config.target.buckets == ({"batch": 1},)
    assert config.quantization.estimator == "auto" and not config.quantization.symmetric
    assert config.plan.pins == () and config.task is None
    assert set(config.budget.model_dump().values()) == {None}


def test_inputs_keep_the_order_of_the_file(tmp_path: Path) -> None:
    text = MINIMAL_TOML + "\n[model.inputs.b]\nshape = [1]\n[model.inputs.a]\nshape = [1]\n"
    assert list(load_config(write(tmp_path, text)).config.model.inputs) == ["x", "b", "a"]


def test_a_loaded_configuration_resolves_from_its_own_folder(tmp_path: Path) -> None:
    loaded = load_config(write(tmp_path, MINIMAL_TOML))
    assert loaded.run_directory == tmp_path.resolve() / "run"
    assert loaded.resolve("data/x.csv") == tmp_path.resolve() / "data/x.csv"
    assert loaded.resolve("/abs") == Path("/abs")


# --- unknown keys ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "place", "near"),
    [
        ({"quantisation": {}}, "quantisation", "quantization"),
        ({"run__sed": 1}, "run.sed", "seed"),
        ({"model__input": {}}, "model.input", "inputs"),
        ({"model__inputs__ids__shap": []}, "model.inputs.ids.shap", "shape"),
        ({"target__bucket": []}, "target.bucket", "buckets"),
        ({"set__heldout_sample": 3}, "set.heldout_sample", "heldout_samples"),
        ({"set__candidates__pth": "x"}, "set.candidates.pth", "path"),
        ({"set__preprocess__tokeniser": "x"}, "set.preprocess.tokeniser", "tokenizer"),
        ({"quantization__estimater": "kl"}, "quantization.estimater", "estimator"),
        ({"plan__polcy": "none"}, "plan.polcy", "policy"),
        (
            {"plan__pins": [{"role": "ffn", "precison": "int8"}]},
            "plan.pins.0.precison",
            "precision",
        ),
        ({"budget__cosine": 0.9}, "budget.cosine", "cosine_mean"),
        ({"runtime__thread": 1}, "runtime.thread", "threads"),
        ({"atc__timeout": 1}, "atc.timeout", "timeout_s"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_known_one(
    changes: dict[str, Any], place: str, near: str
) -> None:
    problem = only(with_keys(**changes))
    assert problem.code == "QF102" and problem.where == place
    assert f"'{near}'" in problem.fix and problem.fix.startswith("did you mean")


def test_an_unknown_key_in_an_optional_section_is_named_with_the_nearest_one() -> None:
    deployment = {"kind": "function", "function": "a:b", "kindd": "csv"}
    problem = only(with_keys(set__deployment=deployment))
    assert problem.where == "set.deployment.kindd" and "'kind'" in problem.fix
    task = {"kind": "similarity", "scores": "net:scores", "source": {**deployment}}
    problem = only(with_keys(task=task))
    assert problem.where == "task.source.kindd" and "'kind'" in problem.fix


@pytest.mark.parametrize("name", ["mask", "shape", "dtype", "inputs"])
def test_an_input_may_be_called_like_a_key_and_the_suggestion_still_fits(name: str) -> None:
    tree = with_keys(**{f"model__inputs__{name}": {"shape": ["batch"], "dtyp": "int64"}})
    problem = only(tree)
    assert problem.where == f"model.inputs.{name}.dtyp" and "'dtype'" in problem.fix


# --- values ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"quantization__percentile": 0.999}, "quantization.percentile"),  # a fraction, not 0-100
        ({"quantization__percentile": 100.5}, "quantization.percentile"),
        ({"quantization__percentile": float("nan")}, "quantization.percentile"),
        ({"plan__pins": {"role": "ffn"}}, "plan.pins"),
        ({"plan__pins": [{"role": "ffn"}, {"role": "mlp"}]}, "plan.pins.1.role"),
        ({"plan__pins": [{"role": "ffn", "pattern": "*"}]}, "plan.pins.0"),
        ({"budget__cosine_mean": 99}, "budget.cosine_mean"),
        ({"budget__cosine_mean": float("nan")}, "budget.cosine_mean"),
        ({"budget__int8_mac_fraction": 75}, "budget.int8_mac_fraction"),
        ({"budget__fp16_groups": -1}, "budget.fp16_groups"),
        ({"budget__fp16_groups": 1.5}, "budget.fp16_groups"),
        ({"plan__boundary_macs": -1.0}, "plan.boundary_macs"),
        ({"plan__boundary_macs": float("inf")}, "plan.boundary_macs"),
        ({"plan__halving": 1}, "plan.halving"),
        ({"plan__metric": "accuracy"}, "plan.metric"),
        ({"run__seed": -1}, "run.seed"),
        ({"run__seed": 2**32}, "run.seed"),
        ({"runtime__batch": 0}, "runtime.batch"),
        ({"runtime__threads": 1.5}, "runtime.threads"),
        ({"runtime__threads": 99_999_999_999}, "runtime.threads"),
        ({"runtime__provider": "npu"}, "runtime.provider"),
        ({"set__samples": 0}, "set.samples"),
        ({"set__candidates": "pool.csv"}, "set.candidates"),
        ({"target__cann": 7.0}, "target.cann"),
        ({"target__cann": True}, "target.cann"),
        ({"target__chip": 310}, "target.chip"),
        ({"target__buckets": []}, "target.buckets"),
        ({"target__buckets": [{"batch": 1}, {"batch": 0}]}, "target.buckets.1.batch"),
        ({"target__buckets": {"batch": 1}}, "target.buckets"),
        ({"target__buckets": [{"batch": 2**63}]}, "target.buckets.0.batch"),
        ({"model__inputs__ids__dtype": "int8"}, "model.inputs.ids.dtype"),
        ({"model__inputs__ids__shape": []}, "model.inputs.ids.shape"),
        ({"model__factory": "net.build"}, "model.factory"),
        ({"model__factory": "../net:build"}, "model.factory"),
        ({"set__candidates": {"kind": "function", "function": "records"}},
         "set.candidates.function"),
        ({"atc__timeout_s": 0}, "atc.timeout_s"),
        ({"atc__parallel": 0}, "atc.parallel"),
        ({"atc__parallel": 17}, "atc.parallel"),
        ({"quantization__estimator": "entropy"}, "quantization.estimator"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_its_key_and_what_was_given(
    changes: dict[str, Any], place: str
) -> None:
    problem = only(with_keys(**changes))
    assert problem.code == "QF103" and problem.where == place
    assert "(given: " in problem.what


@pytest.mark.parametrize(("given", "version"), [(8.0, "8.0"), (2026, "2026"), ("8.0", "8.0")])
def test_a_version_without_quotes_is_the_version(given: Any, version: str) -> None:
    assert check_config(with_keys(target__cann=given), base=Path()).config.target.cann == version


def test_every_input_of_a_factory_without_a_shape_is_named() -> None:
    inputs = {"a": {"dtype": "int64"}, "b": {"shape": ["batch"]}, "c": {"mask": True}}
    problem = only(with_keys(model__inputs=inputs, model__outputs=[]))
    assert problem.where == "model" and "'a', 'c'" in problem.what and "'outputs'" in problem.what


def test_an_input_of_an_onnx_file_may_be_marked_without_its_shape(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").touch()
    model = {"onnx": "m.onnx", "inputs": {"m": {"mask": True}}}
    assert check_config(with_keys(model=model), base=tmp_path).config.model.inputs["m"].mask


def test_names_of_the_tokenizers_fields_need_a_tokenizer() -> None:
    preprocess = {"names": {"ids": "input_ids"}}
    assert "needs 'tokenizer'" in only(with_keys(set__preprocess=preprocess)).what
    preprocess = {"tokenizer": "t", "names": {"ids": "ids"}}
    problem = only(with_keys(set__preprocess=preprocess))
    assert problem.code == "QF103" and problem.where == "set.preprocess.names.ids"


@pytest.mark.parametrize("size", [0, -1])
def test_a_dimension_that_is_no_size_is_one_problem_at_its_own_place(size: int) -> None:
    problem = only(with_keys(model__inputs__ids__shape=["batch", size]))
    assert problem.code == "QF103" and problem.where == "model.inputs.ids.shape.1"


def test_required_keys_are_named() -> None:
    found = problems({"model": {"onnx": "m.onnx"}})
    assert [(p.code, p.where) for p in found] == [("QF103", "set")]
    found = problems(with_keys(set={}))
    assert [p.where for p in found] == ["set.candidates"]


@pytest.mark.parametrize(
    ("changes", "place", "says"),
    [
        ({"model__onnx": "m.onnx"}, "model", "exactly one of 'factory' and 'onnx'"),
        ({"model__factory": None}, "model", "exactly one of 'factory' and 'onnx'"),
        ({"model__inputs": {}}, "model", "'outputs'"),
        ({"model__outputs": []}, "model", "'outputs'"),
        ({"set__candidates": {"kind": "csv"}}, "set.candidates", "needs 'path'"),
        ({"set__candidates": {"kind": "function"}}, "set.candidates", "needs 'function'"),
        ({"set__preprocess": {"tokenizer": "t", "function": "a:b"}}, "set.preprocess", "not both"),
    ],
)
def test_keys_that_do_not_go_together_are_said(
    changes: dict[str, Any], place: str, says: str
) -> None:
    problem = only(with_keys(**changes))
    assert problem.code == "QF103" and problem.where == place and says in problem.what


@pytest.mark.parametrize("outputs", [["y", "y"], ["ids"], [""]])
def test_names_of_inputs_and_outputs_differ_from_each_other(outputs: list[str]) -> None:
    problem = only(with_keys(model__outputs=outputs))
    assert problem.code == "QF103" and problem.where.startswith("model")


def test_all_problems_are_reported_at_once() -> None:
    tree = with_keys(
        run__seeed=1,
        quantization__percentile=0.5,
        set__preprocess__max_length=0,
        target__buckets=[{"batch": -1}],
        colour="red",
    )
    found = {(p.code, p.where) for p in problems(tree)}
    assert found == {
        ("QF102", "run.seeed"),
        ("QF103", "quantization.percentile"),
        ("QF103", "set.preprocess.max_length"),
        ("QF103", "target.buckets.0.batch"),
        ("QF102", "colour"),
    }


# --- files -------------------------------------------------------------------------------------


def test_all_missing_files_are_named_by_key(tmp_path: Path) -> None:
    tree = {
        "model": {"onnx": "m.onnx", "depends": ["w.bin", "package:numpy/nothing_here"]},
        "set": {
            "candidates": {"kind": "csv", "path": "pool-*.csv"},
            "deployment": {"kind": "jsonl", "path": "seen.jsonl"},
            "evaluation": {"kind": "npz", "path": "package:no_such_package_here/x.npz"},
            "preprocess": {"tokenizer": "tokenizer.json"},
        },
        "task": {
            "kind": "similarity",
            "source": {"kind": "text", "path": "a.txt"},
            "scores": "scores.npy",
        },
    }
    found = problems(tree, tmp_path)
    assert {p.code for p in found} == {"QF104"}
    keys = {
        "model.onnx", "model.depends[0]", "model.depends[1]", "set.candidates.path",
        "set.deployment.path", "set.evaluation.path", "set.preprocess.tokenizer",
        "task.source.path", "task.scores",
    }  # fmt: skip
    assert len(found) == len(keys)
    assert all(any(p.where.startswith(key) for p in found) for key in keys), found


@pytest.mark.parametrize("name", ["n" * 5000, "~no_such_user_here/m.onnx"])
def test_a_path_that_cannot_be_is_no_such_file(tmp_path: Path, name: str) -> None:
    problem = only(with_keys(model={"onnx": name}), tmp_path)
    assert problem.code == "QF104" and problem.where.startswith("model.onnx")


def test_files_that_are_there_are_accepted(tmp_path: Path) -> None:
    for name in ("m.onnx", "pool-1.csv", "scores.txt", "a.txt"):
        (tmp_path / name).touch()
    tree = {
        "model": {"onnx": "m.onnx"},
        "set": {"candidates": {"kind": "csv", "path": "pool-*.csv"}},
        "task": {
            "kind": "similarity",
            "source": {"kind": "text", "path": "a.txt"},
            "scores": "scores.txt",
        },
    }
    assert check_config(tree, base=tmp_path).config.task is not None


def test_scores_of_a_function_or_a_package_are_told_from_files(tmp_path: Path) -> None:
    source = {"kind": "function", "function": "net:records"}
    task = {"kind": "similarity", "source": source, "scores": "net:scores"}
    check_config(with_keys(task=task), base=tmp_path)
    problem = only(with_keys(task={**task, "scores": "package:numpy/no_scores"}), tmp_path)
    assert problem.code == "QF104" and problem.where.startswith("task.scores")


@pytest.mark.parametrize("depth", [1, 3, 30])
def test_a_package_path_cannot_leave_its_package(depth: int) -> None:
    with pytest.raises(QuantflowError) as caught:
        resolve_path("package:numpy/" + "../" * depth + "etc/passwd", Path())
    assert caught.value.problems[0].code == "QF104"
    assert "leaves" in caught.value.problems[0].what


def test_a_package_path_cannot_leave_its_package_by_an_absolute_path() -> None:
    with pytest.raises(QuantflowError, match="leaves"):
        resolve_path("package:numpy//etc/passwd", Path())


@pytest.mark.parametrize(
    "name",
    [
        "package:",
        "package:/x",
        "package:no_such_1/x",
        "package:numpy.linalg/x",
        "package:./x",
        "package:json.py",
    ],
)
def test_a_package_that_is_not_installed_is_said(name: str) -> None:
    with pytest.raises(QuantflowError) as caught:
        resolve_path(name, Path())
    assert caught.value.problems[0].code == "QF104"


def test_a_package_path_names_the_file_in_the_package() -> None:
    root = Path(np.__file__).resolve().parent
    assert resolve_path("package:numpy/linalg/__init__.py", Path("/x")) == (
        root / "linalg/__init__.py"
    )


# --- reading the file --------------------------------------------------------------------------


def test_a_missing_file_is_said_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(QuantflowError) as caught:
        load_config(tmp_path / "none.toml")
    (problem,) = caught.value.problems
    assert problem.code == "QF101" and "quantflow init" in problem.fix
    assert problem.where == str(tmp_path / "none.toml")


@pytest.mark.parametrize(
    "data", [b"[model\n", b"a = 1\na = 2\n", b"\xff\xfe", b"a = " + b"[" * 9999]
)
def test_a_file_that_is_no_toml_is_said(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "quantflow.toml"
    path.write_bytes(data)
    with pytest.raises(QuantflowError) as caught:
        load_config(path)
    assert caught.value.problems[0].code == "QF101"


def test_problems_name_the_file_they_are_in(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL_TOML + "[run]\nsede = 1\n")
    with pytest.raises(QuantflowError) as caught:
        load_config(path)
    assert caught.value.problems[0].where == f"{path}: run.sede"


# --- overrides ---------------------------------------------------------------------------------


def overridden(folder: Path, *overrides: str) -> LoadedConfig:
    return load_config(write(folder, MINIMAL_TOML), overrides)


def test_overrides_are_read_as_toml_and_applied_in_order(tmp_path: Path) -> None:
    config = overridden(
        tmp_path,
        "run.seed=7",
        "run.seed=8",
        "quantization.symmetric=true",
        "quantization.percentile = 99.5",
        "target.buckets=[{batch = 2}, {batch = 4}]",
        "model.inputs.x.dtype=float16",
        "atc.options.log=debug",
    ).config
    assert config.run.seed == 8 and config.quantization.symmetric
    assert config.quantization.percentile == 99.5
    assert config.target.buckets == ({"batch": 2}, {"batch": 4})
    assert config.model.inputs["x"].dtype == "float16" and config.atc.options == {"log": "debug"}


@pytest.mark.parametrize(
    ("text", "value"),
    [("out dir", "out dir"), ('"12"', "12"), ("a=b", "a=b"), ("/tmp/run", "/tmp/run"),
     ("x\nseed = 3", "x\nseed = 3"), ('"x"\nseed = 3', '"x"\nseed = 3')],
)  # fmt: skip
def test_text_that_is_no_toml_value_is_a_string(tmp_path: Path, text: str, value: str) -> None:
    assert overridden(tmp_path, f"run.directory={text}").config.run.directory == value


@pytest.mark.parametrize("override", ["run.seed", "=1", "run..seed=1", ".seed=1", "run.=1"])
def test_an_override_of_another_form_is_refused(tmp_path: Path, override: str) -> None:
    with pytest.raises(QuantflowError) as caught:
        overridden(tmp_path, override)
    (problem,) = caught.value.problems
    assert problem.code == "QF106" and override in problem.what + problem.where


@pytest.mark.parametrize("override", ["model.factory.x=1", "model.outputs.0=z"])
def test_an_override_inside_something_that_is_no_table_is_refused(
    tmp_path: Path, override: str
) -> None:
    with pytest.raises(QuantflowError) as caught:
        overridden(tmp_path, override)
    assert caught.value.problems[0].code == "QF106"


def test_an_override_with_a_misspelt_key_is_refused_like_any_other(tmp_path: Path) -> None:
    with pytest.raises(QuantflowError) as caught:
        overridden(tmp_path, "run.sead=1", "runn.seed=1")
    assert [p.code for p in caught.value.problems] == ["QF102", "QF102"]


def test_wrong_overrides_are_reported_all_at_once(tmp_path: Path) -> None:
    with pytest.raises(QuantflowError) as caught:
        overridden(tmp_path, "run.seed", "model.factory.x=1")
    assert [p.code for p in caught.value.problems] == ["QF106", "QF106"]


# --- literals and tables -----------------------------------------------------------------------


def test_the_estimators_of_the_configuration_are_those_of_the_table() -> None:
    from quantflow.ranges.estimators import ESTIMATORS

    assert set(get_args(c.Estimator)) == {"auto", *ESTIMATORS}


def test_the_cann_versions_of_the_configuration_are_those_of_the_op_table() -> None:
    assert set(get_args(c.TargetConfig.model_fields["cann"].annotation)) == set(get_args(Cann))


def test_the_providers_of_the_configuration_are_those_of_the_runtime() -> None:
    from quantflow.runtime.onnxruntime_runner import PROVIDERS

    assert set(get_args(c.RuntimeConfig.model_fields["provider"].annotation)) == set(PROVIDERS)


def test_the_roles_of_pins_are_those_of_layers() -> None:
    from quantflow.artifacts.model_record import Role

    assert set(get_args(c.Role)) == set(get_args(Role))


def test_an_unknown_chip_is_refused_at_once_with_all_other_problems(tmp_path: Path) -> None:
    for changes, other in (
        ({"run__seed": -1}, "QF103"),  # what makes the tree no configuration
        ({"model__depends": ["nowhere.py"]}, "QF104"),
    ):
        found = problems(with_keys(target__chip="Ascend31O", **changes), tmp_path)
        assert {problem.code for problem in found} == {"QF110", other}
    problem = only(with_keys(target__chip="310P3"))
    assert (problem.code, problem.where) == ("QF110", "target.chip")
    assert "Ascend310P3" in problem.fix


def test_the_default_chip_is_one_that_atc_knows() -> None:
    assert check_chip(c.TargetConfig().chip) == "Ascend310P3"


def test_input_types_are_numpy_types() -> None:
    for name in get_args(c.InputConfig.model_fields["dtype"].annotation):
        assert np.dtype(name).name == name


def test_what_a_tokenizer_fills_is_integer(tmp_path: Path) -> None:
    (tmp_path / "t.json").touch()
    shape = ["batch", 8]
    inputs: dict[str, dict[str, Any]] = {"ids": {"shape": shape}, "mask": {"shape": shape}}
    tokenizer = {"tokenizer": "t.json", "names": {"ids": "input_ids", "mask": "attention_mask"}}
    tree = with_keys(model__inputs=inputs, set__preprocess=tokenizer)
    problem = only(tree)
    assert problem.code == "QF103" and "fills 'ids' with integers" in problem.what
    assert "[model.inputs.ids] takes dtype = 'int64'" in problem.what
    inputs["ids"]["dtype"] = "int32"
    check_config(with_keys(model__inputs=inputs, set__preprocess=tokenizer), base=tmp_path)


def test_a_value_in_place_of_a_section_is_said_to_be_one() -> None:
    problem = only(with_keys(optimize=True))
    assert problem.code == "QF103" and problem.where == "optimize"
    assert problem.what == "a section with keys of its own is wanted (given: True)"
