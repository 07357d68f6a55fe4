"""Histograms come back from disk exactly, and a damaged file is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load, save

from quantflow.errors import QuantflowError
from quantflow.ranges.grid import Histogram, empty, observe
from quantflow.ranges.histogram_file import load_histograms, save_histograms

from .shapes import adversarial


def _histograms() -> dict[str, Histogram]:
    found = {f"block/0/{name}": observe(values) for name, values in adversarial().items()}
    large = observe(np.float32([0.1, 1 / 3]))
    found["counts beyond 2^53"] = Histogram(large.counts * (2**60 + 1), large.low, large.high)
    found["not finite"] = observe(np.float32([np.nan, np.inf, 1.5]))
    return found | {"nothing": empty()}


def test_a_round_trip_is_exact(tmp_path: Path) -> None:  # C4
    written = _histograms()
    save_histograms(tmp_path / "h", {"calibration": written, "heldout": {"x": empty()}})
    read = load_histograms(tmp_path / "h")
    assert set(read["calibration"]) == set(written)
    assert set(read["heldout"]) == {"x"}
    for name, hist in read["calibration"].items():
        assert (hist.counts == written[name].counts).all()
        assert hist.counts.dtype == np.int64
        assert (hist.low, hist.high) == (written[name].low, written[name].high)
        assert (hist.nan, hist.inf) == (written[name].nan, written[name].inf)


def test_equal_histograms_are_equal_bytes(tmp_path: Path) -> None:  # C33
    found = _histograms()
    save_histograms(tmp_path / "a", {"calibration": found, "heldout": found})
    reverse = dict(reversed(found.items()))
    save_histograms(tmp_path / "b", {"heldout": reverse, "calibration": reverse})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def _damaged() -> dict[str, bytes]:
    good = {
        "calibration/t/bins": np.array([1, 2], np.uint16),
        "calibration/t/counts": np.array([1, 2], np.int64),
        "calibration/t/extremes": np.array([0, 1], np.float32),
        "calibration/t/inf": np.array([0], np.int64),
    }
    changes = {
        "negative count": {"calibration/t/counts": np.array([1, -2], np.int64)},
        "bins out of order": {"calibration/t/bins": np.array([2, 1], np.uint16)},
        "other lengths": {"calibration/t/counts": np.array([1], np.int64)},
        "other type": {"calibration/t/counts": np.array([1, 2], np.float64)},
        "other split": {"other/t/bins": np.array([1], np.uint16)},
    }
    found = {name: save(good | change) for name, change in changes.items()}
    missing = {name: array for name, array in good.items() if not name.endswith("inf")}
    return found | {"missing part": save(missing), "cut short": save(good)[:-1], "noise": b"\xff"}


@pytest.mark.parametrize("kind", _damaged())
def test_a_file_that_is_not_one_of_ours_is_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "h").write_bytes(_damaged()[kind])
    with pytest.raises(QuantflowError, match="QF502"):
        load_histograms(tmp_path / "h")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(QuantflowError, match="QF502"):
        load_histograms(tmp_path / "h")


def test_only_bins_that_hold_something_are_stored(tmp_path: Path) -> None:
    save_histograms(tmp_path / "h", {"calibration": {"t": observe(np.float32([1, 1, 2]))}})
    arrays = load((tmp_path / "h").read_bytes())
    assert list(arrays["calibration/t/bins"]) == [0x3F80, 0x4000]
    assert list(arrays["calibration/t/counts"]) == [2, 1]
