"""What each kind of task needs, and what needs a task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quantflow.config import TaskConfig, check_config

from .test_config import only, problems, with_keys

SOURCE = {"kind": "function", "function": "net:records"}
RETRIEVAL = {"kind": "retrieval", "queries": SOURCE, "documents": SOURCE}
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
        ({"kind": "classification"}, "'source', 'labels'"),
        ({"kind": "classification", "source": SOURCE}, "needs 'labels'"),
        ({"kind": "retrieval", "documents": SOURCE}, "needs 'queries'"),
        ({**RETRIEVAL, "source": SOURCE, "labels": "a.txt"}, "has no 'source', 'labels'"),
        ({"kind": "agreement", "queries": SOURCE, "relevant": "a.npy"}, "leave out 'queries', 'r"),
        (
            {"kind": "similarity", "source": SOURCE, "scores": "a", "relevant": "a"},
            "kind 'similarity' has no 'relevant'",
        ),
    ],
)
def test_a_kind_says_what_it_lacks_or_has_too_much(task: dict[str, Any], said: str) -> None:
    problem = only(with_keys(task=task))
    assert problem.where == "task" and said in problem.what


@pytest.mark.parametrize(
    ("key", "value", "kinds"),
    [
        ("plan__metric", "perplexity", ["perplexity"]),
        ("budget__perplexity_rise_fraction", 0.1, ["perplexity"]),
        ("plan__metric", "agreement", ["agreement"]),
        ("budget__agreement_fraction", 0.98, ["agreement"]),
        ("plan__metric", "function", ["function"]),
        ("budget__task_drop", 0.0, ["function", "classification", "retrieval", "similarity"]),
    ],
)
def test_a_figure_needs_its_task(key: str, value: Any, kinds: list[str]) -> None:
    (problem,) = problems(with_keys(**{key: value}))
    assert key.replace("__", ".") in problem.what and f"kind = '{kinds[0]}'" in problem.what
    assert all(repr(kind) in problem.what for kind in kinds)
    tasks = {
        "similarity": {"kind": "similarity", "source": SOURCE, "scores": "net:scores"},
        "classification": {"kind": "classification", "source": SOURCE, "labels": "net:labels"},
        "retrieval": RETRIEVAL,
        "perplexity": {"kind": "perplexity"},
        "agreement": {"kind": "agreement"},
        "function": FUNCTION,
    }
    for name, task in tasks.items():
        tree = with_keys(task=task, **{key: value})
        if name in kinds:
            assert check_config(tree, base=Path()).config.task is not None
        else:
            assert f"kind = '{kinds[0]}'" in only(tree).what


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
    found = TaskConfig.model_validate({**RETRIEVAL, "relevant": "net:relevant"}).functions
    assert found == {"task.relevant": "net:relevant"}


def test_a_task_names_the_records_of_its_own() -> None:
    tree = with_keys(task={"kind": "classification", "source": SOURCE, "labels": "net:labels"})
    assert list(check_config(tree, base=Path()).config.task_sources) == ["task.source"]
    both = check_config(with_keys(task=RETRIEVAL), base=Path()).config.task_sources
    assert list(both) == ["task.queries", "task.documents"]
    assert check_config(with_keys(task=FUNCTION), base=Path()).config.task_sources == {}
    assert check_config(with_keys(), base=Path()).config.task_sources == {}


def test_what_is_not_there_of_labels_queries_and_documents_is_said(tmp_path: Path) -> None:
    files = {"kind": "text", "path": "a.txt"}
    retrieval = {"kind": "retrieval", "queries": files, "documents": files, "relevant": "r.npy"}
    labelled = {"kind": "classification", "source": files, "labels": "l.txt"}
    for task, keys in (
        (retrieval, {"task.queries.path", "task.documents.path", "task.relevant"}),
        (labelled, {"task.source.path", "task.labels"}),
    ):
        found = [p for p in problems(with_keys(task=task), tmp_path) if "task" in p.where]
        assert {p.code for p in found} == {"QF104"} and {p.where for p in found} == keys


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
