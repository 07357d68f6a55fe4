"""Without lm-evaluation-harness, one error says how to get it."""

from __future__ import annotations

import sys

import pytest

from quantflow.errors import QuantflowError


def test_the_error_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "lm_eval"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "quantflow.evaluation.lm_eval_model", raising=False)
    monkeypatch.setitem(sys.modules, "lm_eval", None)  # as if it was not installed
    with pytest.raises(QuantflowError) as caught:
        import quantflow.evaluation.lm_eval_model  # noqa: F401  # pyright: ignore
    (problem,) = caught.value.problems
    assert problem.code == "QF608" and "pip install 'lm-eval>=0.4.9,<0.5'" in problem.fix
