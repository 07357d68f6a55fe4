"""Scores of a static bucket are sums of log-softmax over what each row has really seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantflow.artifacts.model_record import TensorInfo
from quantflow.config import RuntimeConfig
from quantflow.errors import QuantflowError
from quantflow.evaluation.language_scorer import LanguageScorer
from quantflow.evaluation.token_windows import Window
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from tests.evaluation.causal_model import BATCH, LENGTH, WORDS, log_chances, model, record

DIMS = {"batch": BATCH, "length": LENGTH}
MASK = TensorInfo(name="seen", dtype="int64", shape=("batch", "length"), mask=True)


@pytest.fixture(scope="module")
def runner() -> OnnxRuntimeRunner:
    return OnnxRuntimeRunner(model(), RuntimeConfig(threads=1))


def expected(window: Window) -> tuple[float, bool]:
    """Token by token, each from all that stands before it in the window."""
    first = len(window.tokens) - len(window.targets)
    rows = [log_chances(window.tokens[: first + i + 1]) for i in range(len(window.targets))]
    pairs = list(zip(rows, window.targets, strict=True))
    return sum(row[t] for row, t in pairs), all(int(row.argmax()) == t for row, t in pairs)


def test_targets_are_scored_from_what_stands_before_them(runner: OnnxRuntimeRunner) -> None:
    rng, windows = np.random.default_rng(1), list[Window]()
    for count in (6, 1, 3, 5, 2, 6, 4):  # the last batch is not full
        row = tuple(rng.integers(0, WORDS, count + 1).tolist())
        windows.append(Window(row[:-1], row[1 + int(rng.integers(0, count)) :]))
    likeliest = int(log_chances([4]).argmax())
    windows.append(Window((4,), (likeliest,)))
    found = list(LanguageScorer(runner, record(), DIMS).score(windows))
    for (value, greedy), window in zip(found, windows, strict=True):
        assert (value, greedy) == (
            pytest.approx(expected(window)[0], rel=1e-5),
            expected(window)[1],
        )
    assert found[-1][1] and not all(greedy for _, greedy in found)


def test_each_token_of_a_continuation_is_the_likeliest_one(runner: OnnxRuntimeRunner) -> None:
    scorer, context, told = LanguageScorer(runner, record(), DIMS), [3, 7, 1], list[list[int]]()

    def stop(found: list[int]) -> bool:
        told.append(list(found))
        return len(found) == 5

    row = list(context)
    for _ in range(5):
        row.append(int(log_chances(row[-LENGTH:]).argmax()))
    assert scorer.generate(context, 9, stop) == row[3:]
    assert told == [row[3 : 4 + i] for i in range(5)]
    assert scorer.generate(context, 2, stop) == row[3:5]


class Watched:
    """Keeps what it is fed and gives no logits to speak of."""

    outputs = ("logits",)

    def __init__(self, shape: tuple[int, ...] = (BATCH, LENGTH, WORDS)) -> None:
        self.fed: list[Any] = []
        self.shape = shape

    def run(self, feeds: Any) -> dict[str, Any]:
        self.fed.append(feeds)
        return {"logits": np.zeros(self.shape, np.float32)}


def test_rows_are_filled_up_behind_their_tokens_and_the_mask_says_so() -> None:
    watched = Watched()
    ((value, _), _) = LanguageScorer(watched, record(MASK), DIMS).score(
        [Window((5, 6), (6, 7)), Window((8,), (9,))]
    )
    assert value == pytest.approx(2 * np.log(1 / WORDS))
    (fed,) = watched.fed
    assert fed["input_ids"].tolist() == [[5, 6, 0, 0, 0, 0], [8, 0, 0, 0, 0, 0], [5, 6, 0, 0, 0, 0]]
    assert fed["seen"].tolist() == [[1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]]


def test_what_is_no_language_model_is_refused() -> None:
    other = TensorInfo(name="positions", dtype="int64", shape=("batch", "length"))
    with pytest.raises(QuantflowError, match=r"QF310.*'positions'"):
        LanguageScorer(Watched(), record(other), DIMS)
    with pytest.raises(QuantflowError, match="QF310"):
        LanguageScorer(Watched(), record(), DIMS, tokens="ids")
    pooled = LanguageScorer(Watched((BATCH, WORDS)), record(), DIMS)
    with pytest.raises(QuantflowError, match="must be logits, \\(3, 6, vocabulary\\)"):
        list(pooled.score([Window((1,), (2,))]))
