"""The task `agreement` in the configuration, and the budget that needs it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from quantflow.config import Config

_MODEL = {"onnx": "m.onnx"}
_SET = {"candidates": {"kind": "npz", "path": "x.npz"}}


def config(**sections: Any) -> Config:
    return Config.model_validate({"model": _MODEL, "set": _SET, **sections})


def test_agreement_needs_nothing_but_its_kind() -> None:
    found = config(task={"kind": "agreement"}, budget={"agreement_fraction": 0.98})
    assert found.task is not None and found.task.token_input is None
    assert found.budget.agreement_fraction == 0.98


def test_a_budget_of_agreement_needs_the_task() -> None:
    for task in (None, {"kind": "perplexity"}):
        with pytest.raises(ValidationError, match=r"agreement_fraction needs \[task\]"):
            config(task=task, budget={"agreement_fraction": 0.98})


def test_agreement_reads_no_source_of_its_own() -> None:
    with pytest.raises(ValidationError, match="'agreement' reads the evaluation samples"):
        config(task={"kind": "agreement", "scores": "s.npy"})
