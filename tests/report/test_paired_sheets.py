"""Precisions pair by pair, and how few samples could tell."""

from __future__ import annotations

from math import inf, log, nan
from typing import Any

import pytest

from quantflow.artifacts.comparison import Comparison, PairedScore, TaskScore
from quantflow.report.paired_sheets import all_sheets, details_sheet, paired_sheet
from tests.report import sample_run as made


def pair(**keys: Any) -> PairedScore:
    known = {
        "metric": "classification", "model": "int8", "baseline": "fp16", "samples": 1000,
        "damage": 0.003, "low": -0.0021, "high": 0.0081, "lost": 5, "gained": 2,
        "p_value": 0.453125, "asked_drop": 0.005, "samples_needed": 2197,
        "detectable_drop": 0.007544,
    }  # fmt: skip
    return PairedScore.model_validate(known | keys)


def comparison(*pairs: PairedScore, **keys: Any) -> Comparison:
    return made.comparison().model_copy(update={"paired": pairs, **keys})


def test_without_a_task_there_is_no_table() -> None:
    assert list(all_sheets(made.comparison())) == []


def test_answers_are_told_in_points_with_mcnemars_test() -> None:
    sheet = paired_sheet(comparison(pair(), pair(baseline="fp32", p_value=None, lost=None)))
    assert sheet.title == "int8 against fp16, spearman"
    assert sheet.head == (
        "pair", "drop", "95% interval", "lost", "gained", "McNemar p", "would be seen"
    )  # fmt: skip
    assert sheet.rows[0] == (
        "int8 against fp16", "0.3 points", "-0.21 points to 0.81 points", "5", "2", "0.4531",
        "0.75 points",
    )  # fmt: skip
    assert sheet.rows[1][3:6] == ("-", "2", "-")
    assert sheet.note == (
        "Of int8 against fp16: on these 1,000 samples, a drop of 0.75 points would be seen; "
        "a drop of 0.5 points would need about 2,200 samples to be seen. "
        "Seen means by a test at 5%, in 4 of 5 cases."
    )


@pytest.mark.parametrize(
    ("keys", "cells", "said"),
    [
        (
            {"metric": "perplexity", "damage": log(1.02), "low": log(1.01), "high": log(1.03)},
            ("2.00%", "1.00% to 3.00%"),
            "a rise of",
        ),
        (
            {"metric": "retrieval", "damage": 0.0125, "low": -0.01, "high": 0.035},
            ("0.0125", "-0.01 to 0.035"),
            "on these 1,000 queries",
        ),
        ({"metric": "similarity"}, ("0.003", "-0.0021 to 0.0081"), "1,000 documents"),
        ({"metric": "function", "asked_drop": None, "samples_needed": None}, (), "be seen. Seen"),
        ({"metric": "retrieval", "detectable_drop": nan}, (), "none differ"),
        ({"detectable_drop": inf}, (), "so few samples show no drop, however large"),
    ],
)
def test_every_kind_is_told_in_its_own_unit(
    keys: dict[str, Any], cells: tuple[str, ...], said: str
) -> None:
    sheet = paired_sheet(comparison(pair(p_value=None, lost=None, gained=None, **keys)))
    assert "McNemar p" not in sheet.head
    assert sheet.rows[0][1 : 1 + len(cells)] == cells and said in sheet.note


def test_further_figures_have_a_column_a_precision() -> None:
    def score(value: float) -> TaskScore:
        return TaskScore(value=value, low=value, high=value)

    details = {"recall@1": {"fp32": score(0.75), "fp16": score(0.5), "int8": score(0.25)}}
    sheet = details_sheet(comparison(pair(), task_details=details))
    assert sheet.head == ("figure", "fp32", "fp16", "int8")
    assert sheet.rows == (("recall@1", "0.7500", "0.5000", "0.2500"),)
    assert len(list(all_sheets(comparison(pair(), task_details=details)))) == 2
