"""Labels and relevant documents are read from three places and checked against the records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantflow.config import TaskConfig
from quantflow.errors import QuantflowError
from quantflow.tasks.truth import load_truth

SOURCE = {"kind": "text", "path": "a.txt"}


def labelled(labels: str) -> TaskConfig:
    task = {"kind": "classification", "source": SOURCE, "labels": labels}
    return TaskConfig.model_validate(task)


def retrieval(**keys: Any) -> TaskConfig:
    task = {"kind": "retrieval", "queries": SOURCE, "documents": SOURCE, **keys}
    return TaskConfig.model_validate(task)


def refusal(judged: TaskConfig, base: Path, **sizes: int) -> str:
    with pytest.raises(QuantflowError) as caught:
        load_truth(judged, base, sizes)
    return str(caught.value)


def test_text_npy_and_function_give_the_same_labels(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("2\n0\n1\n")
    (tmp_path / "line.csv").write_text("2, 0, 1\n")
    np.save(tmp_path / "a.npy", np.array([2, 0, 1], np.uint8))
    np.save(tmp_path / "column.npy", np.array([[2], [0], [1]]))
    (tmp_path / "qf_labels.py").write_text("def given(): return [2, 0, 1]\n")
    for name in ("lines.txt", "line.csv", "a.npy", "column.npy", "qf_labels:given"):
        got = load_truth(labelled(name), tmp_path, {"task": 3})
        assert got.dtype == np.int64 and got.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (np.array([0, 1]), "there are 3 records, so task.labels must be (3,), found (2,)"),
        (np.array([0.0, 1.0, 2.0]), "whole numbers, found float64"),
        (np.array([True, False, True]), "whole numbers, found bool"),
        (np.array([0, -1, 2]), "task.labels of record 1 is -1"),
        (np.zeros((3, 3), np.int64), "found (3, 3)"),
        (np.array([{}, None, 1], dtype=object), "Python objects"),
        (np.array([0, 2**64 - 1, 2], np.uint64), "of record 1 is 18446744073709551615, must be 0"),
        (np.array([-1, -1, -1]), "task.labels of record 0 is -1, must be 0 or more"),
        (np.array([0, 1, 2], "m8[s]"), "whole numbers, found timedelta64[s]"),
        (np.array([0, 1, 2], complex), "whole numbers, found complex128"),
        (np.array(["0", "1", "2"]), "whole numbers, found <U1"),
    ],
)
def test_what_are_no_labels_of_the_records_is_refused(
    tmp_path: Path, content: Any, said: str
) -> None:
    np.save(tmp_path / "a.npy", content)
    text = refusal(labelled("a.npy"), tmp_path, task=3)
    assert "QF316" in text and said in text


def test_words_missing_files_and_functions_that_raise_are_said(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("cat dog cat")
    (tmp_path / "real.txt").write_text("0 1.5 2")
    (tmp_path / "qf_raising.py").write_text("def given(): raise KeyError('x')\n")
    assert "QF316" in refusal(labelled("words.txt"), tmp_path, task=3)
    assert "QF316" in refusal(labelled("real.txt"), tmp_path, task=3)
    missing = refusal(labelled("absent.txt"), tmp_path, task=3)
    assert "QF104" in missing and "task.labels" in missing
    assert "QF304" in refusal(labelled("qf_raising:given"), tmp_path, task=3)


def test_a_query_has_the_document_in_its_place_unless_it_is_told(tmp_path: Path) -> None:
    assert load_truth(retrieval(), tmp_path, {"queries": 2, "documents": 5}).tolist() == [0, 1]
    text = refusal(retrieval(), tmp_path, queries=5, documents=2)
    assert "QF316" in text and "5 queries and 2 documents" in text and "task.relevant" in text
    (tmp_path / "r.txt").write_text("4 4 0")
    told = retrieval(relevant="r.txt")
    assert load_truth(told, tmp_path, {"queries": 3, "documents": 5}).tolist() == [4, 4, 0]
    text = refusal(told, tmp_path, queries=3, documents=4)
    assert "task.relevant of record 0 is 4, must be 0 to 3" in text


def test_scores_are_those_of_the_similarity_task(tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", np.array([[0, 1, 2], [0, 0, 3], [0, 0, 0]]))
    task = TaskConfig.model_validate({"kind": "similarity", "source": SOURCE, "scores": "s.npy"})
    assert load_truth(task, tmp_path, {"task": 3})[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("word", ["1_0", "\u0661", "1.0", "0x1", "9" * 5000])
def test_only_plain_digits_are_whole_numbers(tmp_path: Path, word: str) -> None:
    (tmp_path / "a.txt").write_text(f"0 {word} 2", encoding="utf-8")
    text = refusal(labelled("a.txt"), tmp_path, task=3)
    assert "QF316" in text and len(text) < 500


def test_a_byte_order_mark_is_no_part_of_the_first_number(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("2 0 1", encoding="utf-8-sig")
    assert load_truth(labelled("a.txt"), tmp_path, {"task": 3}).tolist() == [2, 0, 1]


def test_a_result_that_makes_no_array_and_a_nested_header_are_refused(tmp_path: Path) -> None:
    raising = "class A:\n    def __array__(self, *a, **k): raise KeyError('x')\n"
    (tmp_path / "qf_no_array.py").write_text(f"{raising}def given(): return A()\n")
    text = refusal(labelled("qf_no_array:given"), tmp_path, task=3)
    assert "QF316" in text and "KeyError" in text
    header = b"-" * 5000 + b"1\n"
    (tmp_path / "deep.npy").write_bytes(
        b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header
    )
    assert "nested too deep" in refusal(labelled("deep.npy"), tmp_path, task=3)
