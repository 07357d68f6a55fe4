"""What each kind of task needs, and what needs a task."""

from __future__ import annotations

from typing import Any

import pytest

from quantflow.config import TaskConfig

from .test_config import only, problems, with_keys

SOURCE = {"kind": "function", "function": "net:records"}


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"kind": "similarity"}, "'source', 'scores'"),
        ({"kind": "similarity", "source": SOURCE}, "'scores'"),
        ({"kind": "perplexity", "source": SOURCE}, "leave out 'source'"),
        ({"kind": "perplexity", "scores": "net:scores"}, "leave out 'scores'"),
    ],
)
def test_a_kind_says_what_it_lacks_or_has_too_much(task: dict[str, Any], said: str) -> None:
    problem = only(with_keys(task=task))
    assert problem.where == "task" and said in problem.what


@pytest.mark.parametrize(
    "keys", [{"plan__metric": "perplexity"}, {"budget__perplexity_rise_fraction": 0.1}]
)
def test_perplexity_needs_its_task(keys: dict[str, Any]) -> None:
    (problem,) = problems(with_keys(**keys))
    assert next(iter(keys)).replace("__", ".") in problem.what
    assert "kind = 'perplexity'" in problem.what
    similarity = {"kind": "similarity", "source": SOURCE, "scores": "net:scores"}
    assert "kind = 'perplexity'" in only(with_keys(task=similarity, **keys)).what


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
