"""The clipping report as CSV, and magnitudes of channels on disk, read back as written."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from quantflow.artifacts.ranges_record import ClippingReport, ClippingRow, Split
from quantflow.errors import QuantflowError
from quantflow.ranges.channel_file import load_channel_absmax, save_channel_absmax
from quantflow.ranges.clipping_csv import clipping_csv


def _row(**changes: Any) -> ClippingRow:
    settings: dict[str, Any] = {
        **{"tensor": "t", "group": "g", "split": "heldout", "candidate": "kl", "chosen": True},
        **{"low": -0.1, "high": 1 / 3, "absmax": 2.0, "clipping_ratio": 6.0},
        **{"clipped_low_fraction": 0.0, "clipped_high_fraction": 1e-9},
        **{"energy_lost_fraction": 0.25, "sqnr_db": math.inf, "near_threshold_fraction": 0.5},
        **{"worst_samples": ("a[1]", "b[2]"), "flag": 'says "2%", twice\nor so'},
    }
    return ClippingRow(**settings | changes)


def test_the_csv_holds_every_field_at_full_precision() -> None:
    rows = (_row(), _row(sqnr_db=math.nan, chosen=False, worst_samples=(), flag=""))
    text = clipping_csv(ClippingReport(rows=rows))
    first, second = csv.DictReader(text.splitlines(keepends=True))
    assert list(first) == list(ClippingRow.model_fields)
    assert float(first["high"]) == 1 / 3 and float(first["clipped_high_fraction"]) == 1e-9
    assert float(first["sqnr_db"]) == math.inf and math.isnan(float(second["sqnr_db"]))
    assert (first["chosen"], second["chosen"]) == ("true", "false")
    assert (first["worst_samples"], second["worst_samples"]) == ("a[1] b[2]", "")
    assert first["flag"] == rows[0].flag and (first["split"], first["tensor"]) == ("heldout", "t")
    assert "\r" not in text


def test_magnitudes_are_read_back(tmp_path: Path) -> None:
    found: dict[Split, dict[str, Any]] = {
        "calibration": {"a/b": np.float32([1, 2]), "c": np.zeros(0, np.float32)},
        "heldout": {"a/b": np.float32([3, 0.1]), "c": np.float32([7])},
    }
    for name in ("one", "two"):
        save_channel_absmax(tmp_path / name, found)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    read = load_channel_absmax(tmp_path / "one")
    for split, named in found.items():
        assert list(read[split]) == sorted(named)
        assert all((read[split][name] == named[name]).all() for name in named)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "channel_absmax.safetensors"
    with pytest.raises(QuantflowError, match="QF504"):
        load_channel_absmax(path)
    path.write_bytes(b"nonsense")
    with pytest.raises(QuantflowError, match="QF504"):
        load_channel_absmax(path)
    for arrays in ({"calibration/a": np.zeros(2)}, {"elsewhere/a": np.zeros(2, np.float32)}):
        save_file(arrays, path)
        with pytest.raises(QuantflowError, match="QF504"):
            load_channel_absmax(path)
