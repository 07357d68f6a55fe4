"""Sets are drawn by seed alone, do not overlap, and are never smaller than asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.artifacts.model_record import TensorInfo
from quantflow.artifacts.sample_set import SampleSet, SetRecord
from quantflow.calibration.build import build_sets
from quantflow.calibration.draw import shuffled
from quantflow.config import Config
from quantflow.errors import QuantflowError

from .tiny_tokenizer import text_inputs, write_tokenizer

INPUTS = [TensorInfo(name="x", dtype="float32", shape=("batch", 2))]


def _write(path: Path, values: list[float]) -> dict[str, str]:
    rows = [{"x": [value, 0.5], "text": f"value {value}"} for value in values]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"kind": "jsonl", "path": path.name}


def _config(**keys: Any) -> Config:
    sizes = {"samples": 4, "heldout_samples": 3, "evaluation_samples": 2}
    tree: dict[str, Any] = {"model": {"onnx": "m.onnx"}, "run": {"seed": keys.pop("seed", 0)}}
    task = keys.pop("task", None)
    if task is not None:
        tree["task"] = {"kind": "similarity", "source": task, "scores": "s.txt"}
    return Config.model_validate({**tree, "set": sizes | keys})


def _values(folder: Path) -> list[float]:
    return [float(sample["x"][0]) for sample in SampleSet(folder)]


def _ids(record: SetRecord) -> list[str]:
    return [sample.id for sample in record.samples]


def test_every_set_comes_from_its_source(tmp_path: Path) -> None:
    config = _config(
        candidates=_write(tmp_path / "c.jsonl", [100 + i for i in range(10)]),
        deployment=_write(tmp_path / "d.jsonl", [200 + i for i in range(10)]),
        evaluation=_write(tmp_path / "e.jsonl", [300 + i for i in range(10)]),
        task=_write(tmp_path / "t.jsonl", [402, 401, 402]),
    )
    records = build_sets(config, tmp_path, INPUTS, tmp_path / "out")
    for name, source, base, count in (
        ("calibration", "candidates", 100, 4),
        ("heldout", "deployment", 200, 3),
        ("evaluation", "evaluation", 300, 2),
    ):
        values = _values(tmp_path / "out" / name)
        assert _ids(records[name]) == [f"{source}[{int(value) - base}]" for value in values]
        assert len(set(values)) == count
        assert records[name].notes == ()
    assert _values(tmp_path / "out" / "task") == [402, 401, 402]
    assert _ids(records["task"]) == ["task[0]", "task[1]", "task[2]"]
    assert records["task"].duplicates == 1
    assert records["calibration"].samples[0].preview.startswith("value 10")


def test_one_source_serves_all_sets_without_overlap_and_says_so(tmp_path: Path) -> None:
    config = _config(candidates=_write(tmp_path / "c.jsonl", list(range(9))))
    records = build_sets(config, tmp_path, INPUTS, tmp_path / "out")
    drawn = [v for name in records for v in _values(tmp_path / "out" / name)]
    assert sorted(drawn) == list(range(9))
    assert "no set.deployment" in records["heldout"].notes[0]
    assert "no set.evaluation" in records["evaluation"].notes[0]
    assert records["heldout"].source.startswith("candidates: jsonl c.jsonl")


def test_content_that_the_sources_share_is_passed_over_and_counted(tmp_path: Path) -> None:
    shared = [float(i) for i in range(12)]
    config = _config(
        candidates=_write(tmp_path / "c.jsonl", shared),
        deployment=_write(tmp_path / "d.jsonl", shared[::-1]),
        evaluation=_write(tmp_path / "e.jsonl", shared[:2]),
        samples=7,
    )
    records = build_sets(config, tmp_path, INPUTS, tmp_path / "out")
    drawn = {name: set(_values(tmp_path / "out" / name)) for name in records}
    judges = drawn["evaluation"] | drawn["heldout"]
    assert len(judges) == 5 and not judges & (drawn["calibration"] | drawn["deployment"])
    # A pool that holds all of production is no reason to leave it out of the deployment sample.
    assert drawn["deployment"] == set(shared) - judges
    # All that is left of twelve candidates is drawn only after each of the five others was met, or
    # stood behind the last one drawn.
    assert 0 < records["calibration"].overlap <= 5
    assert records["evaluation"].overlap == 0


def test_two_sources_with_the_same_file_are_noted(tmp_path: Path) -> None:
    source = _write(tmp_path / "c.jsonl", list(range(30)))
    config = _config(candidates=source, evaluation=source)
    record = build_sets(config, tmp_path, INPUTS, tmp_path / "out")["calibration"]
    assert any("set.candidates and set.evaluation are the same data" in n for n in record.notes)


def test_a_sample_repeated_fifty_times_is_counted(tmp_path: Path) -> None:
    config = _config(
        candidates=_write(tmp_path / "c.jsonl", [7.0] * 50),
        deployment=_write(tmp_path / "d.jsonl", list(range(10, 20))),
        samples=50,
    )
    record = build_sets(config, tmp_path, INPUTS, tmp_path / "out")["calibration"]
    assert record.duplicates == 49


def test_too_few_records_are_an_error_with_all_counts(tmp_path: Path) -> None:
    config = _config(
        candidates=_write(tmp_path / "c.jsonl", list(range(3))),
        deployment=_write(tmp_path / "d.jsonl", list(range(4))),
    )
    with pytest.raises(QuantflowError) as caught:
        build_sets(config, tmp_path, INPUTS, tmp_path / "out")
    text = str(caught.value)
    assert [problem.code for problem in caught.value.problems] == ["QF308", "QF308"]
    assert "candidates has 3 records, 4 are needed: 4 (set.samples)" in text
    assert "2 (set.evaluation_samples) + 3 (set.heldout_samples)" in text


def test_too_few_records_after_the_overlap_are_an_error(tmp_path: Path) -> None:
    config = _config(
        candidates=_write(tmp_path / "c.jsonl", [1, 2, 3, 4]),
        deployment=_write(tmp_path / "d.jsonl", [1, 2, 30, 40, 50]),
    )
    with pytest.raises(QuantflowError, match=r"gives 2 of 4 samples.*2 equal samples"):
        build_sets(config, tmp_path, INPUTS, tmp_path / "out")


def test_a_limit_makes_every_drawn_set_smaller_but_not_the_task(tmp_path: Path) -> None:
    source = _write(tmp_path / "c.jsonl", list(range(20)))
    config = _config(candidates=source, task=_write(tmp_path / "t.jsonl", [1, 2, 3]))
    records = build_sets(config, tmp_path, INPUTS, tmp_path / "out", limit=2)
    sizes = {name: len(record.samples) for name, record in records.items()}
    assert sizes == {"evaluation": 2, "heldout": 2, "calibration": 2, "task": 3}


def test_evaluation_stays_when_the_candidates_change(tmp_path: Path) -> None:
    deployment = _write(tmp_path / "d.jsonl", list(range(20)))
    drawn: list[list[str]] = []
    for count in (10, 17):
        candidates = _write(tmp_path / "c.jsonl", [100 + i for i in range(count)])
        config = _config(candidates=candidates, deployment=deployment)
        records = build_sets(config, tmp_path, INPUTS, tmp_path / f"out{count}")
        drawn.append(_ids(records["evaluation"]) + _ids(records["heldout"]))
    assert drawn[0] == drawn[1]


def test_progress_counts_every_sample(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    config = _config(candidates=_write(tmp_path / "c.jsonl", list(range(20))))
    build_sets(config, tmp_path, INPUTS, tmp_path / "out", lambda *step: seen.append(step))
    steps = {name: [step[1:] for step in seen if step[0] == name] for name, *_ in seen}
    assert steps["heldout samples"][-1] == (3, 3)
    assert all(done == sorted(done) for done in steps.values())


def test_padding_is_counted_where_the_model_has_a_mask(tmp_path: Path) -> None:
    write_tokenizer(tmp_path / "tokenizer.json")
    words = ["red", "green", "blue", "red red"]
    (tmp_path / "c.txt").write_text("\n".join(words) + "\n")
    tree = {
        "candidates": {"kind": "text", "path": "c.txt"},
        "preprocess": {"tokenizer": "tokenizer.json", "max_length": 8},
    }
    config = _config(**tree, samples=2, heldout_samples=1, evaluation_samples=1)
    inputs = text_inputs("input_ids", "attention_mask")
    records = build_sets(config, tmp_path, inputs, tmp_path / "out")
    for name, record in records.items():
        tokens = [
            2 + len(s.preview.split()) for s in SampleSet(tmp_path / "out" / name).record.samples
        ]
        assert record.padding_fraction == pytest.approx(1 - sum(tokens) / (8 * len(tokens)))


_SCRIPT = """
import sys
from pathlib import Path
from tests.calibration.test_build import INPUTS, _config
from quantflow.calibration.build import build_sets
base = Path(sys.argv[1])
config = _config(candidates={"kind": "jsonl", "path": "c.jsonl"}, seed=int(sys.argv[3]))
build_sets(config, base, INPUTS, base / sys.argv[2])
"""


def test_sets_are_byte_identical_in_another_process_and_differ_with_the_seed(
    tmp_path: Path,
) -> None:
    _write(tmp_path / "c.jsonl", list(range(60)))
    for out, seed, hash_seed in (("a", "1", "1"), ("b", "1", "2"), ("c", "2", "1")):
        command = [sys.executable, "-c", _SCRIPT, str(tmp_path), out, seed]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        subprocess.run(command, check=True, env=environment, cwd=Path(__file__).parents[2])

    def content(out: str) -> dict[str, bytes]:
        root = tmp_path / out
        return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}

    # Two files a set, drift.json, hygiene.json and features.safetensors.
    assert len(content("a")) == 9
    assert content("a") == content("b")
    assert content("a") != content("c")


@settings(max_examples=50)
@given(count=st.integers(0, 200), seed=st.integers(0, 2**32 - 1), stream=st.integers(0, 2))
def test_a_shuffled_order_is_a_permutation(count: int, seed: int, stream: int) -> None:
    assert sorted(shuffled(count, seed=seed, stream=stream)) == list(range(count))


def test_every_record_is_equally_likely_to_come_first() -> None:
    firsts = [next(shuffled(4, seed=seed, stream=0)) for seed in range(2000)]
    counts = np.bincount(firsts, minlength=4)
    # 500 expected, standard deviation 19: five of them.
    assert abs(counts - 500).max() < 97


def test_a_record_that_is_no_dict_is_named_wherever_it_lies(tmp_path: Path) -> None:
    (tmp_path / "qf_mixed.py").write_text(
        "def rows(): return [{'x': [float(i), 0.5]} for i in range(9)] + [3]\n"
    )
    config = _config(candidates={"kind": "function", "function": "qf_mixed:rows"})
    config = config.model_copy(update={"set": config.set.model_copy(update={"samples": 5})})
    with pytest.raises(QuantflowError, match=r"candidates\[9\] is int") as caught:
        build_sets(config, tmp_path, INPUTS, tmp_path / "out")
    assert caught.value.problems[0].code == "QF304"
