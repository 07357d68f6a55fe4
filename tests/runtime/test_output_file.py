"""Outputs that are kept on disk, without a trace in the folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from quantflow.runtime.output_file import OutputFile


def test_arrays_come_back_as_they_were_in_any_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {i: rng.normal(size=(i + 1, 3)).astype(np.float32) for i in (4, 0, 2)}
    arrays[7], arrays[9] = np.float32([np.nan, np.inf]), np.zeros((0, 5), np.float32)
    kept = OutputFile(tmp_path)
    for index, array in arrays.items():
        kept.add(index, array)
        np.testing.assert_array_equal(kept[4], arrays[4])  # between writes as well
    for index in (9, 2, 0, 7, 4):
        np.testing.assert_array_equal(kept[index], arrays[index])
        assert kept[index].shape == arrays[index].shape
    kept.add(11, np.arange(12, dtype=np.float32).reshape(3, 4).T)
    np.testing.assert_array_equal(kept[11], np.arange(12).reshape(3, 4).T)
    assert len(kept) == 6


def test_the_file_has_no_name(tmp_path: Path) -> None:
    OutputFile(tmp_path).add(0, np.ones(1000, np.float32))
    assert list(tmp_path.iterdir()) == []
