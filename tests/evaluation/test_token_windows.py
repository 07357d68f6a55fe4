"""Windows of a text: every token foretold once, with all the context that fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantflow.errors import QuantflowError
from quantflow.evaluation.token_windows import Window, continuation_window, rolling_windows


def test_rolling_windows_are_those_of_the_harness_own_example() -> None:
    # lm_eval.api.model.LM.loglikelihood_rolling, with 99 for BOS and a length of 4.
    assert list(rolling_windows(range(10), 99, 4)) == [
        Window((99, 0, 1, 2), (0, 1, 2, 3)),
        Window((3, 4, 5, 6), (4, 5, 6, 7)),
        Window((5, 6, 7, 8), (8, 9)),
    ]
    assert list(rolling_windows([5], 99, 4)) == [Window((99,), (5,))]
    assert list(rolling_windows([], 99, 4)) == []


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 9))
def test_every_token_is_foretold_once_from_what_comes_before(text: list[int], length: int) -> None:
    found = list(rolling_windows(text, 99, length))
    assert [token for window in found for token in window.targets] == text
    row, done = [99, *text], 0
    for window in found:
        done += len(window.targets)
        assert list(window.tokens) == row[max(done - length, 0) : done]
        assert 1 <= len(window.targets) <= len(window.tokens) <= length


def test_a_long_context_loses_its_start() -> None:
    assert continuation_window([1, 2], [3, 4], 9) == Window((1, 2, 3), (3, 4))
    assert continuation_window([1, 2, 3, 4], [5, 6], 3) == Window((3, 4, 5), (5, 6))
    assert continuation_window([1, 2], [3, 4, 5], 3) == Window((2, 3, 4), (3, 4, 5))
    with pytest.raises(QuantflowError, match="4 tokens, the bucket takes 3"):
        continuation_window([1], [2, 3, 4, 5], 3)
