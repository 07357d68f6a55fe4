"""`[task]`: what the three precisions are judged by."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from quantflow.config.section import Flag, FunctionName, Section
from quantflow.config.set import SourceConfig

TaskKind = Literal[
    "similarity", "classification", "retrieval", "perplexity", "agreement", "function"
]
TASK_DROP_KINDS: tuple[TaskKind, ...] = (
    "function",
    "classification",
    "retrieval",
    "similarity",
)
"""Kinds of tasks that `budget.task_drop` is for."""
_TASK_NEEDS: dict[str, tuple[str, ...]] = {
    "similarity": ("source", "scores"),
    "classification": ("source", "labels"),
    "retrieval": ("queries", "documents"),
    "function": ("function", "higher_is_better"),
}
"""Keys of `TaskConfig` that a kind cannot do without."""
_TASK_MAY = {"retrieval": ("relevant",)}
_TASK_SOURCES = ("source", "queries", "documents")
_TASK_NUMBERS = ("scores", "labels", "relevant")


def _is_function(name: str) -> bool:
    return ":" in name.removeprefix("package:")


class TaskConfig(Section):
    """A task that the three precisions are judged by.

    Attributes:
        kind: `similarity` correlates the cosine of two embeddings with a human score;
            `classification` is the share of records whose highest score, along the last axis of
            the first output, is that of the label; `retrieval` is the mean reciprocal rank of every
            query's relevant document by the cosine of the first output; `perplexity` is that of a
            causal language model, whose first output is the logits of the next token, on the
            evaluation samples; `agreement` is the share of decisions, the highest along the last
            axis of the first output, that are those of fp32, on the evaluation samples; `function`
            is the mean of a user's own figure, on the evaluation samples.
        source: of `similarity` and `classification`: the records, preprocessed as in
            `set.preprocess`.
        scores: of `similarity`: an ``(n, n)`` matrix of scores, upper triangle used: a text or
            ``.npy`` file, or ``module:function`` that returns it.
        labels: of `classification`: the class of every record, ``(n,)`` whole numbers from 0: a
            text or ``.npy`` file, or ``module:function`` that returns them.
        queries, documents: of `retrieval`: the records, preprocessed as in `set.preprocess`.
        relevant: of `retrieval`: for every query the place of its document, from 0, given as
            `labels`; the i-th document where it is left out.
        tokens: of `perplexity`: the input that holds the token ids.
        function: of `function`: ``module:function`` that is given a sample's id, its inputs and its
            outputs, both dictionaries of arrays by name, and returns a number.
        higher_is_better: of `function`: which way that number points.
    """

    kind: TaskKind
    source: SourceConfig | None = None
    scores: str | None = None
    labels: str | None = None
    queries: SourceConfig | None = None
    documents: SourceConfig | None = None
    relevant: str | None = None
    tokens: str = "input_ids"
    function: FunctionName | None = None
    higher_is_better: Flag | None = None

    @model_validator(mode="after")
    def _what_the_kind_needs(self) -> TaskConfig:
        needs = _TASK_NEEDS.get(self.kind, ())
        known = (*_TASK_SOURCES, *_TASK_NUMBERS, "function", "higher_is_better")
        given = [key for key in known if getattr(self, key) is not None]
        lacking = [key for key in needs if key not in given]
        if lacking:
            raise ValueError(f"kind '{self.kind}' needs {', '.join(map(repr, lacking))}")
        extra = [x for x in given if x not in (*needs, *_TASK_MAY.get(self.kind, ()))]
        data = [key for key in extra if key in (*_TASK_SOURCES, *_TASK_NUMBERS)]
        if data and not self.sources:
            what = ", ".join(map(repr, data))
            raise ValueError(f"kind '{self.kind}' reads the evaluation samples: leave out {what}")
        if extra:
            raise ValueError(f"kind '{self.kind}' has no {', '.join(map(repr, extra))}")
        return self

    @property
    def sources(self) -> dict[str, SourceConfig]:
        """The records of its own that the kind reads, by key; empty for evaluation samples."""
        asked = [key for key in _TASK_NEEDS.get(self.kind, ()) if key in _TASK_SOURCES]
        found = {key: getattr(self, key) for key in asked}
        return {key: source for key, source in found.items() if source is not None}

    @property
    def numbers(self) -> dict[str, str]:
        """What names numbers that belong to these records: files or functions, by key."""
        found = {f"task.{key}": getattr(self, key) for key in _TASK_NUMBERS}
        return {key: name for key, name in found.items() if name is not None}

    @property
    def number_files(self) -> dict[str, str]:
        """Those of `numbers` that are files."""
        return {key: name for key, name in self.numbers.items() if not _is_function(name)}

    @property
    def functions(self) -> dict[str, str]:
        """The functions it names that judge what models give, by key: no early stage calls them."""
        own = {"task.function": self.function} if self.function is not None else {}
        return own | {key: name for key, name in self.numbers.items() if _is_function(name)}

    @property
    def token_input(self) -> str | None:
        """The input that holds token ids, for a task that reads them."""
        return self.tokens if self.kind == "perplexity" else None
