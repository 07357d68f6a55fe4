"""Outputs of several precisions side by side, real positions only."""

from __future__ import annotations

import numpy as np
import pytest

from quantflow.evaluation.comparison import compare_outputs
from quantflow.numerics.error_metrics import cosine
from quantflow.progress import no_progress
from quantflow.tasks.metrics import Judged
from tests.runtime.sequence_model import DIMS, TOKENS, Model, record, sample


def test_closeness_is_that_of_real_positions_only() -> None:
    rng = np.random.default_rng(0)
    samples = [sample(rng.integers(1, 9, n)) for n in (6, 2, 4, 3)]
    calls = list[tuple[str, int, int]]()
    found = compare_outputs(
        Model(), {"near": Model(offset=1), "same": Model()}, samples, "abcd", record(**TOKENS),
        DIMS, lambda *call: calls.append(call),
    )  # fmt: skip
    assert found["same"].cosine == pytest.approx([1] * 4)
    assert not found["same"].max_abs_error.any()
    assert found["near"].max_abs_error == pytest.approx([1] * 4)
    for index, one in enumerate(samples):
        a = np.stack([one["ids"], one["ids"] + 0.5], -1).astype(np.float32)[None]
        assert found["near"].cosine[index] == pytest.approx(cosine(a, a + np.float32(1))[0])
    assert [call[1:] for call in calls] == [(done, 12) for done in range(1, 13)]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_not_hidden(bad: float) -> None:
    found = compare_outputs(
        Model(), {"broken": Model(offset=bad)}, [sample([1, 2])], "a", record(**TOKENS), DIMS,
        no_progress,
    )["broken"]  # fmt: skip
    assert np.isnan(found.cosine[0])
    assert not np.isfinite(found.max_abs_error[0])


def test_an_observer_sees_what_every_model_made_of_every_sample_without_padding() -> None:
    samples = [sample([5, 6, 7, 8], [0, 0, 1, 1]), sample([1, 2]), sample([3] * 6)]
    seen = dict[tuple[str, int], list[object]]()

    def observe(name: str, index: int, judged: Judged) -> None:
        sides = (
            judged.inputs["ids"],
            *(x["tokens"][:, 0] for x in (judged.reference, judged.outputs)),
        )
        seen[name, index] = [judged.id, *(x.tolist() for x in sides)]

    compare_outputs(
        Model(), {"near": Model(offset=1)}, samples, ["a", "b", "c"], record(**TOKENS), DIMS,
        no_progress, observe,
    )  # fmt: skip
    assert seen == {
        ("fp32", 0): ["a", [7, 8], [7, 8], [7, 8]], ("near", 0): ["a", [7, 8], [7, 8], [8, 9]],
        ("fp32", 1): ["b", [1, 2], [1, 2], [1, 2]], ("near", 1): ["b", [1, 2], [1, 2], [2, 3]],
        ("fp32", 2): ["c", [3] * 6, [3] * 6, [3] * 6],
        ("near", 2): ["c", [3] * 6, [3] * 6, [4] * 6],
    }  # fmt: skip
