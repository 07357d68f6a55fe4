"""The demo's code: functions as text; its second configuration differs in the candidates alone."""

from __future__ import annotations

import ast
from pathlib import Path

from quantflow.config import load_config
from quantflow.user_code import load_function

FOLDER = Path(__file__).parents[2] / "calibration_sets" / "minilm_wikipedia"


def test_records_are_whole_functions_in_a_fixed_order() -> None:
    records = load_function("data:python_functions", FOLDER)()
    assert len(records) > 1000
    for record in records[::50]:
        node = ast.parse(record["text"]).body[0]
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        assert len(record["text"]) >= 200
    modules = [record["title"] for record in records]
    assert modules == sorted(modules)
    assert load_function("data:python_functions", FOLDER)() == records


def test_the_candidates_are_prose_and_code() -> None:
    prose = load_function("data:calibration_paragraphs", FOLDER)()
    code = load_function("data:python_functions", FOLDER)()
    assert load_function("data:candidates", FOLDER)() == prose + code


def test_the_second_configuration_differs_in_candidates_and_selection_alone() -> None:
    mixed, code = (load_config(FOLDER / f"{name}.toml").config for name in ("quantflow", "code"))
    assert (mixed.set.selection, code.set.selection) == ("match", "random")
    assert code.set.candidates.function == "data:python_functions"
    changed = {"selection": "match", "candidates": mixed.set.candidates}
    assert code.set.model_copy(update=changed) == mixed.set
    assert (code.model, code.target, code.quantization) == (
        mixed.model,
        mixed.target,
        mixed.quantization,
    )
