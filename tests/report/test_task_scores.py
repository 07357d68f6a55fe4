"""A task's figure is in whatever unit its author chose."""

from __future__ import annotations

import pytest

from quantflow.report.comparison_sheets import precisions_sheet
from quantflow.report.sheet import score_text
from tests.report import sample_run as made


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5000"),
        (0, "0.0000"),
        (16.40386, "16.4039"),
        (0.00123456, "0.001235"),
        (-2.5e-7, "-2.5e-07"),
        (float("nan"), "nan"),
    ],
)
def test_small_figures_keep_their_digits(value: float, text: str) -> None:
    assert score_text(value) == text


def test_a_users_figure_is_called_like_its_function() -> None:
    comparison = made.comparison().model_copy(update={"task_metric": "word_errors"})
    assert precisions_sheet(comparison).head[-2:] == ("word_errors", "95% interval")
