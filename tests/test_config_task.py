"""What each kind of task needs, and what needs a task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quantflow.config import TaskConfig, check_config

from .test_config import only, problems, with_keys

SOURCE = {"kind": "function", "function": "net:records"}
FUNCTION = {"kind": "function", "function": "net:figure", "higher_is_better": False}


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"kind": "similarity"}, "'source', 'scores'"),
        ({"kind": "similarity", "source": SOURCE}, "'scores'"),
        ({"kind": "perplexity", "source": SOURCE}, "leave out 'source'"),
        ({"kind": "perplexity", "scores": "net:scores"}, "leave out 'scores'"),
        ({"kind": "function"}, "needs 'function', 'higher_is_better'"),
        ({"kind": "function", "function": "net:figure"}, "needs 'higher_is_better'"),
        ({"kind": "function", "higher_is_better": True}, "needs 'function'"),
        ({"kind": "agreement", "function": "net:figure"}, "has no 'function'"),
        ({"kind": "perplexity", "higher_is_better": False}, "has no 'higher_is_better'"),
        ({**FUNCTION, "source": SOURCE}, "leave out 'source'"),
    ],
)
def test_a_kind_says_what_it_lacks_or_has_too_much(task: dict[str, Any], said: str) -> None:
    problem = only(with_keys(task=task))
    assert problem.where == "task" and said in problem.what


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("plan__metric", "perplexity", "perplexity"),
        ("budget__perplexity_rise_fraction", 0.1, "perplexity"),
        ("plan__metric", "agreement", "agreement"),
        ("budget__agreement_fraction", 0.98, "agreement"),
        ("plan__metric", "function", "function"),
        ("budget__task_drop", 0.0, "function"),
    ],
)
def test_a_figure_needs_its_task(key: str, value: Any, kind: str) -> None:
    (problem,) = problems(with_keys(**{key: value}))
    assert key.replace("__", ".") in problem.what and f"kind = '{kind}'" in problem.what
    tasks = {
        "similarity": {"kind": "similarity", "source": SOURCE, "scores": "net:scores"},
        "perplexity": {"kind": "perplexity"},
        "agreement": {"kind": "agreement"},
        "function": FUNCTION,
    }
    for name, task in tasks.items():
        tree = with_keys(task=task, **{key: value})
        if name == kind:
            assert check_config(tree, base=Path()).config.task is not None
        else:
            assert f"kind = '{kind}'" in only(tree).what


def test_all_that_needs_another_task_is_said_at_once() -> None:
    keys = {"plan__metric": "agreement", "budget__agreement_fraction": 0.9}
    problem = only(with_keys(task=FUNCTION, **keys))
    assert "plan.metric = 'agreement' and budget.agreement_fraction needs" in problem.what


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), "a lot", True])
def test_a_drop_is_no_negative_number(value: object) -> None:
    assert only(with_keys(task=FUNCTION, budget__task_drop=value)).where == "budget.task_drop"


@pytest.mark.parametrize("name", ["figure", "net.figure", ":figure", "net:", "a b:c"])
def test_a_function_is_named_with_its_module(name: str) -> None:
    problem = only(with_keys(task={**FUNCTION, "function": name}))
    assert problem.where == "task.function"


def test_a_task_names_the_functions_that_judge() -> None:
    assert TaskConfig.model_validate(FUNCTION).functions == {"task.function": "net:figure"}
    assert TaskConfig(kind="agreement").functions == {}
    for scores, named in (("net:scores", True), ("s.npy", False), ("package:net/s.npy", False)):
        task = {"kind": "similarity", "source": SOURCE, "scores": scores}
        found = TaskConfig.model_validate(task).functions
        assert found == ({"task.scores": scores} if named else {})


@pytest.mark.parametrize("value", [0, -0.1, float("nan"), "a lot", True])
def test_a_rise_is_a_positive_number(value: object) -> None:
    tree = with_keys(task={"kind": "perplexity"}, budget__perplexity_rise_fraction=value)
    assert only(tree).where == "budget.perplexity_rise_fraction"


def test_only_a_task_that_reads_tokens_names_their_input() -> None:
    assert TaskConfig(kind="perplexity").token_input == "input_ids"
    assert TaskConfig(kind="perplexity", tokens="ids").token_input == "ids"
    similarity = TaskConfig.model_validate(
        {"kind": "similarity", "source": SOURCE, "scores": "net:scores"}
    )
    assert similarity.token_input is None
