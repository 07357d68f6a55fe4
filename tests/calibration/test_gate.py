"""The gate as stage 1 runs it: which samples it sees, what it writes, what it says."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from quantflow.artifacts.drift_record import DriftReport
from quantflow.artifacts.sample_set import SampleSet
from quantflow.calibration.build import build_sets
from quantflow.config import check_config
from quantflow.errors import QuantflowError

from .tiny_tokenizer import text_inputs, write_tokenizer

SIZES = {"samples": 40, "heldout_samples": 5, "evaluation_samples": 5}


def _texts(word: str, count: int, seed: int) -> list[str]:
    """Different texts, half of whose words are `word`."""
    rng = random.Random(seed)
    others = ["red", "green", "blue", word, word]
    texts: dict[str, None] = {}
    while len(texts) < count:
        texts[" ".join(rng.choices(others, k=rng.randint(8, 13)))] = None
    return list(texts)


def _write(path: Path, texts: list[str]) -> dict[str, str]:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return {"kind": "jsonl", "path": path.name}


def _build(folder: Path, **keys: Any) -> DriftReport:
    write_tokenizer(folder / "tokenizer.json")
    (folder / "m.onnx").touch()
    sets = {
        **SIZES,
        "candidates": _write(folder / "c.jsonl", keys.pop("candidates")),
        "preprocess": {"tokenizer": "tokenizer.json", "max_length": 16},
        **keys,
    }
    for name in ("deployment", "evaluation"):
        if name in sets:
            sets[name] = _write(folder / f"{name}.jsonl", sets[name])
    config = check_config({"model": {"onnx": "m.onnx"}, "set": sets}, base=folder).config
    build_sets(config, folder, text_inputs("input_ids", "attention_mask"), folder / "out")
    return DriftReport.read(folder / "out" / "drift.json")


def _ids(folder: Path, name: str) -> set[str]:
    return set(SampleSet(folder / "out" / name).ids)


def test_candidates_like_deployment_pass(tmp_path: Path) -> None:
    report = _build(tmp_path, candidates=_texts("red", 100, 1), deployment=_texts("red", 150, 2))
    assert report.verdict == "pass"
    assert report.selection == "random"
    assert report.counts.calibration == 40
    assert 130 < report.counts.deployment <= 140  # a few texts may be in the candidates, too
    assert {"length", "input_ids.unknown", "text.letters"} <= {x.feature for x in report.features}


def test_the_deployment_sample_has_samples_of_its_own(tmp_path: Path) -> None:
    _build(
        tmp_path,
        candidates=_texts("red", 60, 1),
        deployment=_texts("red", 80, 2),
        deployment_samples=50,
    )
    sets = [_ids(tmp_path, name) for name in ("deployment", "heldout", "evaluation")]
    assert [len(x) for x in sets] == [50, 5, 5]
    assert len(set.union(*sets)) == 60


def test_other_candidates_fail_and_the_words_that_differ_are_named(tmp_path: Path) -> None:
    report = _build(tmp_path, candidates=_texts("green", 100, 1), deployment=_texts("red", 150, 2))
    assert report.verdict == "fail"
    assert "input_ids.frequencies" in [x.feature for x in report.features if x.verdict != "pass"]
    assert set(report.features[0].examples) <= _ids(tmp_path, "calibration")


def test_selection_repairs_a_pool_of_both_and_shows_both(tmp_path: Path) -> None:
    mixed = _texts("red", 150, 1) + _texts("unheard", 250, 3)
    report = _build(
        tmp_path,
        candidates=mixed,
        deployment=_texts("red", 150, 2),
        selection="match",
        pool_samples=400,
    )
    assert report.verdict == "pass"
    assert report.counts.candidates == 400
    assert report.before is not None
    assert report.before.verdict == "fail"
    chosen = [int(x.removeprefix("candidates[")[:-1]) for x in _ids(tmp_path, "calibration")]
    assert len(chosen) == 40
    assert max(chosen) < 150


def test_candidates_that_equal_evaluation_samples_are_said(tmp_path: Path) -> None:
    test_set = _texts("red", 5, 4)
    report = _build(
        tmp_path,
        candidates=_texts("red", 35, 1) + test_set + _texts("red", 5, 5),
        deployment=_texts("red", 150, 2),
        evaluation=test_set,
    )
    assert 0 < report.counts.evaluation_overlap <= 5
    assert report.verdict == "warn"
    assert "candidates equal evaluation samples" in report.reasons[0]


def test_a_calibration_set_of_one_text_does_not_pass(tmp_path: Path) -> None:
    report = _build(tmp_path, candidates=["red red"] * 40, deployment=_texts("red", 150, 2))
    assert report.verdict == "fail"
    assert report.counts.calibration_effective == 1
    assert report.counts.calibration_duplicates == 39


def test_a_small_deployment_source_is_no_error_but_said(tmp_path: Path) -> None:
    report = _build(tmp_path, candidates=_texts("red", 60, 1), deployment=_texts("red", 12, 2))
    assert report.verdict == "warn"
    assert report.counts.deployment == 2
    assert report.counts.deployment_needed > 2
    report = _build(tmp_path, candidates=_texts("red", 60, 1), deployment=_texts("red", 10, 2))
    assert report.counts.deployment == 0
    assert "no deployment sample" in report.reasons[0]


def test_without_a_deployment_source_the_verdict_is_a_warning(tmp_path: Path) -> None:
    report = _build(tmp_path, candidates=_texts("red", 60, 1))
    assert report.verdict == "warn"
    assert not (tmp_path / "out" / "deployment").exists()


def test_matching_needs_something_to_match(tmp_path: Path) -> None:
    with pytest.raises(QuantflowError, match=r"needs \[set\.deployment\]"):
        _build(tmp_path, candidates=_texts("red", 60, 1), selection="match")
