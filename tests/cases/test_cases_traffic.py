"""Text of another language or length than production's, through the command line with a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cases.test_cases_data import asked
from tests.cases.text_project import CHINESE, ENGLISH, texts, write_text_project, write_texts


@pytest.fixture(autouse=True)
def no_atc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def _read(folder: Path, name: str) -> Any:
    return json.loads((folder / "run" / name).read_text())


def _judged(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[tuple[int, int], dict[str, str], Any]:
    """Exit statuses of stages 1 and 2, verdicts of the features, and the coverage."""
    assert asked(capsys, "prepare", "-c", str(config))[0] == 0
    status = tuple(asked(capsys, x, "-c", str(config))[0] for x in ("build-set", "calibrate"))
    drift = _read(config.parent, "10_set/drift.json")
    verdicts = {row["feature"]: row["verdict"] for row in drift["features"]}
    return (status[0], status[1]), verdicts, _read(config.parent, "20_ranges/coverage.json")


def test_english_calibration_fails_for_chinese_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # C31
    english, chinese = texts(ENGLISH, (20, 60), 80, 1), texts(CHINESE, (20, 60), 300, 2)
    config = write_text_project(tmp_path, english, chinese)
    status, verdicts, coverage = _judged(config, capsys)
    assert status == (1, 1)
    assert verdicts["text.script"] == verdicts["input_ids.frequencies"] == "fail"
    assert any(reason.startswith("first: ") for reason in coverage["reasons"])


def test_a_set_of_short_prompts_fails_for_long_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # C32: what is like a prefill of a few tokens, for traffic that goes on to the full length.
    short, long = texts(ENGLISH, (3, 12), 200, 1), texts(ENGLISH, (40, 60), 300, 2)
    config = write_text_project(tmp_path, short, long)
    status, verdicts, coverage = _judged(config, capsys)
    assert status == (1, 1)
    assert verdicts["length"] == "fail"
    assert any(reason.startswith("first: ") for reason in coverage["reasons"])


def test_a_set_like_its_traffic_passes_and_watch_sees_it_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_text_project(
        tmp_path, texts(ENGLISH, (20, 60), 80, 1), texts(ENGLISH, (20, 60), 300, 2)
    )
    status, verdicts, coverage = _judged(config, capsys)
    assert status == (0, 0) and "fail" not in verdicts.values()
    assert coverage["verdict"] == "pass"
    for name, lines, code in (
        ("same", texts(ENGLISH, (20, 60), 150, 3), 0),
        ("chinese", texts(CHINESE, (20, 60), 150, 3), 1),
        ("short", texts(ENGLISH, (3, 12), 150, 3), 1),
    ):
        source = f"jsonl:{write_texts(tmp_path / f'{name}.jsonl', lines)}"
        found, tree = asked(capsys, "watch", "-c", str(config), "--source", source)
        assert (found, name) == (code, name)
        # Short texts stay inside the ranges that long ones gave.
        fails = tree["coverage"]["verdict"] == "fail"
        assert fails == (name == "chinese")
