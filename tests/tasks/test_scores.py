"""Score matrices are read from three places and checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quantflow.errors import QuantflowError
from quantflow.tasks.given_numbers import numbers_digest
from quantflow.tasks.scores import load_scores

SCORES = np.array([[1, 0.5, 0.25], [0, 1, 0.75], [0, 0, 1]])


def _refusal(name: str, base: Path, count: int = 3) -> str:
    with pytest.raises(QuantflowError) as caught:
        load_scores(name, base, count)
    return str(caught.value)


def test_text_npy_and_function_give_the_same_matrix(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "tabs.txt", SCORES, delimiter="\t")
    np.savetxt(tmp_path / "commas.csv", SCORES, delimiter=",")
    np.save(tmp_path / "a.npy", SCORES.astype(np.float32))
    (tmp_path / "qf_scores.py").write_text(f"def matrix(): return {SCORES.tolist()}\n")
    for name in ("tabs.txt", "commas.csv", "a.npy", "qf_scores:matrix"):
        got = load_scores(name, tmp_path, 3)
        assert got.dtype == np.float64
        np.testing.assert_array_equal(got, SCORES)


def test_the_wrong_size_is_refused_with_both_sizes(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", SCORES)
    assert "must be (4, 4), found (3, 3)" in _refusal("a.npy", tmp_path, 4)
    np.save(tmp_path / "a.npy", SCORES[:2])
    assert "found (2, 3)" in _refusal("a.npy", tmp_path)


def test_scores_without_an_order_are_refused(tmp_path: Path) -> None:
    bad = SCORES.copy()
    bad[0, 2] = np.nan
    np.save(tmp_path / "nan.npy", bad)
    np.save(tmp_path / "equal.npy", np.ones((3, 3)))
    assert "1 scores above the diagonal are NaN" in _refusal("nan.npy", tmp_path)
    assert "must not all be equal" in _refusal("equal.npy", tmp_path)


def test_files_that_are_no_matrix_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([{}, None], dtype=object))
    (tmp_path / "words.txt").write_text("a b\nc d\n")
    (tmp_path / "underscore.txt").write_text("0 1_0 2\n0 0 3\n0 0 0\n")
    (tmp_path / "ragged.txt").write_text("1 2\n3\n")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe")
    (tmp_path / "qf_raises.py").write_text("def matrix(): raise KeyError('x')\n")
    assert "Python objects" in _refusal("objects.npy", tmp_path)
    for name in ("words.txt", "underscore.txt", "ragged.txt", "binary.txt"):
        assert "QF309" in _refusal(name, tmp_path)
    assert "QF104" in _refusal("absent.txt", tmp_path)
    assert "KeyError" in _refusal("qf_raises:matrix", tmp_path)


def test_the_digest_follows_the_content(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 2\n3 4\n")
    before = numbers_digest("a.txt", tmp_path)
    (tmp_path / "a.txt").write_text("1 2\n3 5\n")
    assert numbers_digest("a.txt", tmp_path) != before


@pytest.mark.parametrize("kind", ["m8[s]", "complex64", "U4", "S4"])
def test_only_real_numbers_are_scores(tmp_path: Path, kind: str) -> None:
    np.save(tmp_path / "a.npy", np.array([[0, 1, 2], [0, 0, 3], [0, 0, 0]]).astype(kind))
    text = _refusal("a.npy", tmp_path)
    assert "QF309" in text and "must hold real numbers" in text
